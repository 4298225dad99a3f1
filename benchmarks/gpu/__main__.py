"""Try and measure everything that needs a GPU: ``python -m benchmarks.gpu --out DIR``.

Writes DIR/results.jsonl, a line for each part as soon as it ends, and DIR/report.md, a section for
docs/benchmarks.md. A part that fails costs only its own rows. It ends within 6.5 minutes.
"""

import argparse
import faulthandler
import json
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from benchmarks.environments import ROOT, WORKSHOP
from benchmarks.machine import report_head
from benchmarks.rounds import markdown_table
from transformer_cli.base.errors import UsageError
from transformer_cli.base.ranks import SINGLE_PROCESS, Ranks
from transformer_cli.config.schema import Config
from transformer_cli.config.yaml import load_config
from transformer_cli.data.kinds import default_split, load_split
from transformer_cli.data.store import EncodedText
from transformer_cli.extensions.distributed.torchrun import ConnectedRanks
from transformer_cli.extensions.stores.multi30k import find
from transformer_cli.inference.loading import ComputeOptions, load_translator
from transformer_cli.model.device import choose_device
from transformer_cli.model.transformer import build_model, load_weights, weights_of
from transformer_cli.runs.checkpoint import Checkpoint, save_checkpoint
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.protocol import PAD_ID
from transformer_cli.training.preparation import open_prepared_data
from transformer_cli.training.trainer import Trainer

SMALL_MODEL, BASE_MODEL = "multi30k_de_en_bpe", "multi30k_de_en_base"
WHOLE = "multi30k_de_en_fast"
_SECONDS, _LAST_START = 390, 300  # for everything, and after which no further part starts
_BEAM_SIZE = 5
# Its 600 subwords can be learned from 4,000 captions.
_TOY = ("data={kind: toy, src_lang: de, tgt_lang: en}", "tokenizer.vocab_size=600")
_TINY = ("model={num_encoder_layers: 1, num_decoder_layers: 1, d_model: 64, d_ff: 64}",)
_NO_DROPOUT = ("model.dropout=0", "model.attention_dropout=0", "model.activation_dropout=0")

Row = dict[str, str | int | float]


@dataclass(frozen=True)
class Setting:
    """Where and how much to measure."""

    device: torch.device
    small: bool  # only see that the benchmark works, on the toy corpus with tiny models
    work: Path  # for the corpus, and the run that is trained

    @property
    def uses_toy(self) -> bool:
        """Whether the toy corpus is used instead of Multi30k, which is never downloaded."""
        return self.small or not find("train", "de", "en")

    @property
    def changes(self) -> tuple[str, ...]:
        """What is changed in every configuration, as ``--set`` takes it."""
        return (*(_TOY if self.uses_toy else ()), *(_TINY if self.small else ()))

    def config(self, name: str, *changes: str) -> Config:
        """Return a shipped configuration with this setting's changes and further ones."""
        return load_config(ROOT / "configs" / f"{name}.yaml", (*self.changes, *changes))


@dataclass(frozen=True)
class Corpus:
    """The training text as token ids."""

    setting: Setting
    text: EncodedText
    vocab: int

    def trainer(
        self,
        config: Config,
        precision: torch.dtype = torch.bfloat16,
        pairs: int | None = None,
        device: torch.device | None = None,
        ranks: Ranks = SINGLE_PROCESS,
    ) -> Trainer:
        """Return a trainer at step 0, on the first ``pairs`` of the corpus."""
        model = build_model(config.model, self.vocab, self.vocab, PAD_ID, config.seed)
        text = self.text.take(np.arange(min(pairs or len(self.text), len(self.text))))
        place = device or self.setting.device
        return Trainer(model.to(place), text, config, precision, ranks=ranks)


_PROGRAM = (sys.executable, "-m", "transformer_cli")


def open_corpus(setting: Setting) -> Corpus:
    """Return the corpus; learn its vocabulary and encode it if that has not been done yet."""
    run, config = RunDirectory(setting.work / "corpus"), setting.config(SMALL_MODEL)
    sets = [word for change in setting.changes for word in ("--set", change)]
    words = ("vocab", f"configs/{SMALL_MODEL}.yaml", "--run-dir", str(run.path), *sets)
    subprocess.run((*_PROGRAM, *words), cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    data = open_prepared_data(config, run)
    return Corpus(setting, data.pairs.draw(0, 0, 0), data.tokenizers.tgt.size)


# --- parts ----------------------------------------------------------------------------------------


def exactness(setting: Setting) -> Iterator[Row]:
    """Loss and gradients of a step, relative to those of the CPU in float32."""
    corpus = open_corpus(setting)
    settings = [*_NO_DROPOUT, "training.batch_tokens=2560", "training.max_steps=5"]
    for name in (SMALL_MODEL, BASE_MODEL):
        config = setting.config(name, *settings, "training.clip_norm=null")
        expected = _trace(corpus.trainer(config, torch.float32, 500, torch.device("cpu")))
        for precision in (torch.float32, torch.bfloat16):
            losses, moments = _trace(corpus.trainer(config, precision, 500))
            ratios = np.array(losses) / np.array(expected[0]) - 1.0
            yield {
                "model": name,
                "precision": str(precision),
                "loss": abs(float(ratios[0])),
                "gradients": _relative_error(moments, expected[1]),
                "loss of step 5": abs(float(ratios[-1])),
            }


def _trace(trainer: Trainer) -> tuple[list[float], list[Tensor]]:
    """Train; return each step's loss, and Adam's first moments after the first step."""
    losses: list[float] = []
    moments: list[Tensor] = []
    for step in trainer.steps():
        losses.append(step.loss / step.tgt_tokens)
        if step.step == 1:
            # A copy: on a CPU, .cpu() is the tensor that later steps change.
            moments = [
                moment.detach().to("cpu", torch.float64, copy=True)
                for name, moment in trainer.optimizer.state().items()
                if name.startswith("exp_avg.")
            ]
    return losses, moments


def _relative_error(found: list[Tensor], expected: list[Tensor]) -> float:
    one, other = (torch.cat([each.flatten() for each in side]) for side in (found, expected))
    return float((one - other).norm() / other.norm())


def speed(setting: Setting) -> Iterator[Row]:
    """Target tokens per second of training in bfloat16, without the first steps."""
    corpus = open_corpus(setting)
    steps = 4 if setting.small else 60
    warm_up = steps // 4
    for name, batch_tokens in ((SMALL_MODEL, 2560), (SMALL_MODEL, 12_000), (BASE_MODEL, 25_000)):
        tokens = min(batch_tokens, 512) if setting.small else batch_tokens
        limits = (f"training.batch_tokens={tokens}", f"training.max_steps={steps}")
        trainer = corpus.trainer(setting.config(name, *limits, "training.epochs=100"))
        taken = trainer.steps()
        for _ in islice(taken, warm_up):
            pass
        _synchronize(setting.device)
        started = time.perf_counter()
        tgt_tokens = sum(step.tgt_tokens for step in taken)
        _synchronize(setting.device)
        seconds = time.perf_counter() - started
        yield {
            "model": name,
            "tokens a batch": tokens,
            "ms a step": 1000 * seconds / (steps - warm_up),
            "target tokens/s": tgt_tokens / seconds,
            "peak memory, GiB": _peak_memory(setting.device) / 2**30,
        }


def _synchronize(device: torch.device) -> None:
    """Wait for what a GPU has yet to do; a CPU is never behind."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def _peak_memory(device: torch.device) -> int:
    """Return the most memory that torch has held on a GPU since the last call; 0 on a CPU."""
    if device.type != "cuda":
        return 0
    peak = torch.cuda.max_memory_reserved(device)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    return peak


def resuming(setting: Setting) -> Iterator[Row]:
    """Weights after 40 steps, against a repetition, and against a checkpoint after 20."""
    corpus = open_corpus(setting)
    steps = 6 if setting.small else 40
    limits = ("training.batch_tokens=2560", f"training.max_steps={steps}", "training.epochs=100")
    config = setting.config(SMALL_MODEL, *limits)
    for precision in (torch.float32, torch.bfloat16):
        trainers = [corpus.trainer(config, precision, 1000) for _ in range(4)]
        straight, repeated, first, second = trainers
        list(straight.steps())
        list(repeated.steps())
        list(islice(first.steps(), steps // 2))
        _hand_over(first, second)
        list(second.steps())
        yield {
            "precision": str(precision),
            "steps": second.step,
            "repeated: largest difference": _difference(straight, repeated),
            "resumed: largest difference": _difference(straight, second),
        }


def _hand_over(first: Trainer, second: Trainer) -> None:
    """Save a checkpoint of one trainer and restore the other from it, as a session does."""
    weights, state = weights_of(first.eval_model), first.optimizer.state()
    with TemporaryDirectory() as directory:
        path = save_checkpoint(Path(directory), weights, state, first.state(), "none")
        checkpoint = Checkpoint.open(path, "none")
        load_weights(second.eval_model, checkpoint.load_weights())
        second.restore(checkpoint.load_state(), checkpoint.load_optimizer())


def _difference(one: Trainer, other: Trainer) -> float:
    # The gradients of keys' biases are rounding errors, which Adam makes as large as any other.
    pairs = zip(weights_of(one.model).items(), weights_of(other.model).values(), strict=True)
    return max(float((a - b).abs().max()) for (name, a), b in pairs if "key.bias" not in name)


def whole(setting: Setting) -> Iterator[Row]:
    """``train``, stopped by Ctrl-C and started again, then ``evaluate``."""
    run = RunDirectory(setting.work / "run")
    shutil.rmtree(run.path, ignore_errors=True)
    limit = ("training.max_steps=60", "training.validate_every=20") if setting.small else ()
    sets = [word for change in (*setting.changes, *limit) for word in ("--set", change)]
    on = ("--device", setting.device.type, "--precision", "bfloat16")
    train = (*_PROGRAM, "train", f"configs/{WHOLE}.yaml", "--run-dir", str(run.path), *sets, *on)
    began = time.perf_counter()
    process = subprocess.Popen(train, cwd=ROOT, stdout=subprocess.DEVNULL)
    while process.poll() is None and not (run.metrics.is_file() and run.metrics.stat().st_size):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    status = process.wait()
    yield {"command": "train, stopped", "seconds": time.perf_counter() - began, "exit code": status}
    for name, words in (
        ("train, to the end", train),
        ("evaluate", (*_PROGRAM, "evaluate", str(run.path), "--json", *on)),
    ):
        began = time.perf_counter()
        done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8", check=True)
        yield {"command": name, "seconds": time.perf_counter() - began, "exit code": 0}
    yield {"test": name, "BLEU": json.loads(done.stdout)["scores"]["bleu"]["value"]}


def decoding(setting: Setting) -> Iterator[Row]:
    """Sentences per second of the run's translations, and how many equal the CPU's in float32."""
    run = RunDirectory(setting.work / "run")
    data = run.load_config().data
    lines = list(load_split(data, default_split(data)).src[: 20 if setting.small else None])
    compared = lines[:200]  # as the CPU takes its time
    on_cpu = load_translator(run, "best", ComputeOptions("torch", "cpu", "float32"))
    device: Literal["cuda", "cpu"] = "cuda" if setting.device.type == "cuda" else "cpu"
    precisions: tuple[Literal["float32", "bfloat16"], ...] = ("float32", "bfloat16")
    for beam_size in (1, _BEAM_SIZE):
        expected = on_cpu.with_search(beam_size=beam_size).translate(compared)
        for precision in precisions:
            options = ComputeOptions("torch", device, precision)
            translator = load_translator(run, "best", options).with_search(
                beam_size=beam_size, batch_tokens=16_384 * beam_size
            )
            translator.translate(lines)  # loads the kernels for these shapes
            started = time.perf_counter()
            found = translator.translate(lines)
            seconds = time.perf_counter() - started
            same = sum(one == other for one, other in zip(expected, found, strict=False))
            yield {
                "precision": precision,
                "beam": beam_size,
                "sentences/s": len(lines) / seconds,
                "as on the CPU": f"{same} of {len(compared)}",
            }


def several(setting: Setting) -> Iterator[Row]:
    """Steps over DistributedDataParallel, in a process group of one."""
    on_gpu = setting.device.type == "cuda"
    with TemporaryDirectory() as directory:
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
            init_method=f"file://{directory}/group",
            rank=0,
            world_size=1,
        )
        try:
            # Two are claimed, so that the trainer reduces gradients; clipping undoes their scale.
            ranks = ConnectedRanks(rank=0, size=2, group=dist.new_group(backend="gloo"))
            config = setting.config(SMALL_MODEL, "training.max_steps=10", "training.epochs=100")
            trainer = open_corpus(setting).trainer(config, pairs=2000, ranks=ranks)
            losses = [step.loss / step.tgt_tokens for step in trainer.steps()]
        finally:
            dist.destroy_process_group()
    yield {"steps": len(losses), "first loss a token": losses[0], "last": losses[-1]}


def tests(setting: Setting) -> Iterator[Row]:
    """``pytest -m gpu`` of tests/test_gpu.py."""
    words = ("-m", "pytest", "-m", "gpu", "-rfE", "-p", "no:cacheprovider")
    done = subprocess.run(
        (sys.executable, *words, "tests/test_gpu.py"), cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    print(done.stdout)
    lines = done.stdout.splitlines() or [f"ended with {done.returncode}, saying nothing"]
    for line in lines:
        if line.startswith(("FAILED ", "ERROR ")) or line is lines[-1]:
            yield {"tests": line[:200]}


Part = Callable[[Setting], Iterator[Row]]
PARTS: tuple[Part, ...] = (exactness, speed, resuming, whole, decoding, several, tests)


# --- the report -----------------------------------------------------------------------------------


def measure(part: Part, setting: Setting) -> tuple[list[Row], str]:
    """Return a part's rows, and the error that ended it, if one did."""
    rows: list[Row] = []
    try:
        for row in part(setting):
            print(json.dumps(row), flush=True)
            rows.append(row)
    except Exception as error:  # whatever fails costs its own part
        traceback.print_exc(file=sys.stderr)
        return rows, f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"[:200]
    return rows, ""


def section(part: Part, rows: Sequence[Row], error: str) -> str:
    """Return a part's section of the report: a table for each set of columns."""
    lines = [f"### {part.__name__}", str(part.__doc__)]
    for columns in dict.fromkeys(map(tuple, rows)):
        cells = [[_format(row[key]) for key in columns] for row in rows if tuple(row) == columns]
        lines.append(markdown_table(columns, cells))
    return "\n\n".join([*lines, *([f"Ended by {error}."] if error else [])])


def _format(value: str | int | float) -> str:
    if isinstance(value, str):
        return value.replace("|", "\\|")
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1000 else f"{value:.3g}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and return the exit code: 1 if a part failed or was not reached."""
    names = [part.__name__ for part in PARTS]
    parser = argparse.ArgumentParser(prog="benchmarks.gpu", description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="only see that it works")
    parser.add_argument("--out", type=Path, metavar="DIR", help="for the report", required=True)
    parser.add_argument("--parts", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--work", type=Path, metavar="DIR", help="for the corpus and the run")
    options = parser.parse_args(arguments)
    try:
        device = choose_device(options.device)
    except UsageError as error:
        raise SystemExit(str(error)) from error
    # Whatever hangs ends the process, with a traceback of every thread.
    faulthandler.dump_traceback_later(_SECONDS, exit=True, file=sys.__stderr__ or sys.stderr)
    work = (options.work or WORKSHOP / ("gpu-small" if options.small else "gpu")).resolve()
    for directory in (work, options.out):
        directory.mkdir(parents=True, exist_ok=True)
    setting = Setting(device, options.small, work)
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    remark = f"{gpu}, {'toy corpus' if setting.uses_toy else 'Multi30k'}."
    sections = ["## On a GPU", report_head("python -m benchmarks.gpu"), remark]
    began, has_failed = time.monotonic(), False
    with (options.out / "results.jsonl").open("w", encoding="utf-8") as results:
        for part in (part for part in PARTS if part.__name__ in options.parts):
            is_late = time.monotonic() - began > _LAST_START
            rows, failure = ([], "lack of time") if is_late else measure(part, setting)
            has_failed |= bool(failure)
            line = {"part": part.__name__, "rows": rows, "error": failure}
            results.write(json.dumps(line) + "\n")
            results.flush()
            sections.append(section(part, rows, failure))
            # After each part: what kills this process must not take the report with it.
            report = "\n\n".join(sections) + "\n"
            (options.out / "report.md").write_text(report, encoding="utf-8")
    print(report)
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
