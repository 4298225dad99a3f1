"""From raw text to a BLEU score, with the times of all phases."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.environments import ROOT
from benchmarks.gpu.parts import Row
from benchmarks.gpu.setting import Setting
from transformer_cli.runs.checkpoint import list_checkpoints, parse_step
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.metrics_log import read_records, validations

AIM = 36.52
_CONFIG = "configs/multi30k_de_en_fast.yaml"
_POLL = 0.01  # seconds


def measure(setting: Setting) -> Iterator[Row]:
    """Yield a row for each phase as it ends, then sums, then the score."""
    run = setting.run
    shutil.rmtree(run.path, ignore_errors=True)
    changes = [*setting.changes(), *(["training.max_steps=10"] if setting.small else [])]
    sets = [argument for change in changes for argument in ("--set", change)]
    on = ("--device", setting.device.type, "--precision", "bfloat16")
    began = time.perf_counter()
    sums: dict[str, float] = {}
    for row in _train(run, "train", _CONFIG, "--run-dir", str(run.path), *sets, *on):
        kind = str(row["phase"]).partition(" (")[0]
        sums[kind] = sums.get(kind, 0.0) + float(row["seconds"])
        yield row
    trained = time.perf_counter()
    command = _command("evaluate", str(run.path), "--beam-size", "1", "--json", *on)
    process = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8", check=True
    )
    scores = json.loads(process.stdout)
    ended = time.perf_counter()
    for kind, seconds in {**sums, "evaluate": ended - trained}.items():
        yield {"sum of": kind, "seconds": seconds}
    yield {
        "split": scores["split"],
        "BLEU": scores["scores"]["bleu"]["value"],
        "BLEU lowercased": scores["scores"]["bleu_lc"]["value"],
        "train, s": trained - began,
        "evaluate, s": ended - trained,
        "together, s": ended - began,
    }


def _command(*arguments: str) -> tuple[str, ...]:
    return sys.executable, "-m", "transformer_cli", *arguments


def _train(run: RunDirectory, *arguments: str) -> Iterator[Row]:
    """Run a training; yield its phases as what they leave in the run directory appears."""
    start = last = time.perf_counter()
    process = subprocess.Popen(_command(*arguments), cwd=ROOT)
    seen: set[str] = set()
    is_over = False
    while not is_over:
        time.sleep(_POLL)
        is_over = process.poll() is not None
        phases = [*_phases(run), *([("end", None)] if is_over else [])]
        now = time.perf_counter()
        for phase, bleu in phases:
            if phase not in seen:
                seen.add(phase)
                yield _row(phase, now - last, now - start, bleu)
                last = now
    if process.returncode:
        raise RuntimeError(f"train ended with {process.returncode}; see the log")


def _row(phase: str, seconds: float, since_start: float, bleu: float | None) -> Row:
    return {
        "phase": phase,
        "seconds": seconds,
        "since the start, s": since_start,
        "validation BLEU lowercased": "" if bleu is None else bleu,
        f"{AIM} or more": "yes" if bleu is not None and bleu >= AIM else "",
    }


def _phases(run: RunDirectory) -> Iterator[tuple[str, float | None]]:
    """Yield the phases that are over, in order, each with its validation's lowercased BLEU."""
    files = {
        "start (imports, reading, checks)": run.config,
        "vocabulary": run.tokenizer,
        "encoding": run.encoded,
    }
    for phase, path in files.items():
        if path.exists():
            yield phase, None
    records = read_records(run.metrics)
    if records:  # the first is the session's
        yield "model and forecast", None
    for path in list_checkpoints(run.checkpoints):
        yield f"steps (to {parse_step(path)}, and saving)", None
    for validation in validations(records):
        yield f"validation (of step {validation['step']})", validation["bleu_lc"]
