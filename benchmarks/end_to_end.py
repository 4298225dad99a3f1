"""Text in, text out, start included: ``python -m benchmarks.end_to_end RUN``."""

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.decoding import DEFAULT_RUN, SPLIT, prepare
from benchmarks.environments import ROOT, WORKSHOP, environment
from benchmarks.machine import report_head
from benchmarks.peers.marian_weights import LENGTH_FACTOR
from benchmarks.rounds import THREADS, markdown_table
from transformer_cli.data.kinds import load_split
from transformer_cli.evaluation.scores import score
from transformer_cli.runs.directory import RunDirectory

_CONDITIONS = """\
Greedy translation of German text by the commands that a user runs: wall-clock seconds from the
start of the process to its end, and lines/s. {lines} lines: the first {test:,} are those of
{split}, whose translations BLEU is of, the rest are drawn from the training text. {threads}
threads each; medians over {rounds} rounds by turns, files of {once:,} lines and more once.
CTranslate2's own is a script with SentencePiece, after its documentation; "times CTranslate2's" is
of its seconds in the same precision. Marian's is `pymarian decode`, with its own SentencePiece; its
outputs are no translations but as long, see Decoding."""

_SCRIPT = "CTranslate2 4.8.5"
_ONCE = 50_000
"""A file of so many lines is translated in one round only."""


def main(arguments: Sequence[str] | None = None) -> str:
    """Measure, and give the report's section on whole commands.

    Args:
        arguments: as on the command line; None takes those.
    """
    parser = argparse.ArgumentParser(prog="benchmarks.end_to_end", description=__doc__)
    parser.add_argument("run", type=Path, nargs="?", default=DEFAULT_RUN)
    parser.add_argument("--lines", type=int, nargs="+", default=[1_000, 20_000])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)

    directory = WORKSHOP / "end_to_end"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    run = RunDirectory(options.run)
    commands = _commands(run, directory)
    data = run.load_config().data
    test, train = load_split(data, SPLIT), load_split(data, "train")
    rows = {name: [name] for name in commands}
    for number in options.lines:
        drawn = random.Random(1).choices(list(train.src), k=max(0, number - len(test.src)))
        lines = [*test.src, *drawn][:number]
        source = directory / f"{number}.txt"
        source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        rounds = options.rounds if number < _ONCE else 1
        seconds = _time(commands, source, directory, rounds)
        for name, times in seconds.items():
            took = median(times)
            translations = _output(directory, name).read_text(encoding="utf-8").splitlines()
            if len(translations) != number:
                raise SystemExit(f"{name}: {number} lines became {len(translations)}")
            scored = translations[: len(test.tgt)]
            bleu = score(scored, list(test.tgt)[: len(scored)])["bleu"].value
            shown = "–" if name.startswith("Marian") else f"{bleu:.2f}"
            precision = name.rpartition(", ")[2]
            times_script = took / median(seconds[f"{_SCRIPT}, {precision}"])
            rows[name] += [f"{took:.2f}", f"{number / took:,.0f}", f"{times_script:.2f}", shown]
    header = ["command"]
    for number in options.lines:
        header += [f"{number:,} lines, s", "lines/s", "times CTranslate2's", "BLEU"]
    conditions = _CONDITIONS.format(
        lines=" and ".join(f"{number:,}" for number in options.lines),
        test=len(test.src), split=SPLIT, threads=THREADS, rounds=options.rounds, once=_ONCE,
    )  # fmt: skip
    return "\n\n".join(("## End to end", conditions, markdown_table(header, list(rows.values()))))


def _commands(run: RunDirectory, directory: Path) -> dict[str, list[str]]:
    """Return each contestant's command, in which INPUT and OUTPUT stand for files."""
    translate = [sys.executable, "-m", "transformer_cli", "translate", str(run.path)]
    translate += ["-i", "INPUT", "-o", "OUTPUT", "--beam-size", "1", "--threads", str(THREADS)]
    commands = {
        "ours, torch, float32": [*translate, "--engine", "torch", "--precision", "float32"],
        "ours, CTranslate2, float32": [*translate, "--engine", "ctranslate2"],
        "ours, CTranslate2, int8": [*translate, "--engine", "ctranslate2", "--precision", "int8"],
    }
    pieces = directory / "pieces.spm"
    shutil.copy(run.tokenizer / "joint.model", pieces)
    ctranslate2 = [str(environment("ctranslate2")), "-m", "benchmarks.peers.ctranslate2_translate"]
    for quantization in ("float32", "int8"):
        model = directory / quantization
        export = [sys.executable, "-m", "transformer_cli", "export", str(run.path), str(model)]
        _run([*export, "--format", "ctranslate2", "--quantization", quantization])
        commands[f"{_SCRIPT}, {quantization}"] = [
            *ctranslate2, str(model), str(pieces), str(THREADS), "INPUT", "OUTPUT"
        ]  # fmt: skip
    job, _ = prepare(run)
    job.save(directory / "job.json")
    marian = str(environment("marian"))
    for gemm_type, name in (("float32", "float32"), ("intgemm8", "int8")):
        home = directory / gemm_type
        home.mkdir(exist_ok=True)
        make = [marian, "-m", "benchmarks.peers.marian_model", gemm_type]
        _run([*make, str(directory / "job.json"), str(home)])
        model = home / ("model.npz" if gemm_type == "float32" else "model.bin")
        commands[f"Marian 1.12.42, {name}"] = [
            *(marian, "-m", "pymarian", "decode", "--models", str(model), "--quiet"),
            *("--vocabs", str(pieces), str(pieces), "--cpu-threads", str(THREADS)),
            *("--beam-size", "1", "--max-length-factor", str(LENGTH_FACTOR), "--mini-batch", "64"),
            *("--maxi-batch", "1000", "--maxi-batch-sort", "src"),
            *("--input", "INPUT", "--output", "OUTPUT"),
        ]
    return commands


def _time(
    commands: dict[str, list[str]], source: Path, directory: Path, rounds: int
) -> dict[str, list[float]]:
    """Return the seconds of each command's runs."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(1, rounds + 1):
        for name, command in commands.items():
            output = _output(directory, name)
            output.unlink(missing_ok=True)
            files = {"INPUT": str(source), "OUTPUT": str(output)}
            started = time.perf_counter()
            _run([files.get(word, word) for word in command])
            seconds[name].append(time.perf_counter() - started)
            print(f"round {number}: {name}: {seconds[name][-1]:.1f} s", file=sys.stderr)
    return seconds


def _output(directory: Path, name: str) -> Path:
    return directory / f"{name.replace(' ', '_')}.output"


def _run(command: Sequence[str]) -> None:
    env = {**os.environ, "OMP_NUM_THREADS": str(THREADS), "PYTHONPATH": str(ROOT)}
    # An installed program has its bytecode; a checkout's is to be kept from the first call on.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    process = subprocess.run(
        command, env=env, stdout=sys.stderr, stderr=subprocess.PIPE, text=True, check=False
    )
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}\n{process.stderr}")


if __name__ == "__main__":
    section = main()
    print(report_head(f"python -m benchmarks.end_to_end {' '.join(sys.argv[1:])}".strip()))
    print(f"\n{section}")
