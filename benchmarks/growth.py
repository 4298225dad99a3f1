"""Whether training costs the same, a token and in memory, however big the corpus is.

    python -m benchmarks.growth --steps 60 --sizes 30000 300000 3000000

Makes seeded text of as many pairs, prepares a run and takes optimizer steps as ``train`` does, each
in a process of its own, prints a table and draws docs/growth.svg. Run it alone on the machine, as
everything that takes times.
"""

import argparse
import multiprocessing
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from benchmarks.environments import ROOT, WORKSHOP
from benchmarks.rounds import markdown_table
from benchmarks.synthetic_text import write_pairs

if TYPE_CHECKING:
    from transformer_cli.training.trainer import Trainer

DIRECTORY = WORKSHOP / "growth"
PLOT = ROOT / "docs" / "growth.svg"
SIZES = (30_000, 300_000, 3_000_000)
VAL_PAIRS = 200

CONFIG = """\
data:
  kind: files
  src_lang: de
  tgt_lang: en
  train: {{src: {corpus}/train.de, tgt: {corpus}/train.en}}
  val: {{src: {corpus}/val.de, tgt: {corpus}/val.en}}
tokenizer: {{kind: sentencepiece, model_type: bpe, vocab_size: 8000, joint: true}}
model:
  d_model: 256
  num_heads: 4
  d_ff: 1024
  num_encoder_layers: 3
  num_decoder_layers: 3
  dropout: 0.3
  tying: all
training:
  epochs: 10
  batch_tokens: 2560
  schedule: {{kind: linear, peak: 2e-3, warmup: 300}}
"""


@dataclass(frozen=True)
class Start:
    """What getting ready to train took."""

    seconds: float
    peak_mb: float


@dataclass(frozen=True)
class Steps:
    """What optimizer steps took."""

    start: Start
    ms_per_1000: float
    """Milliseconds for 1,000 target tokens, the median of all steps."""
    peak_mb: float


@dataclass(frozen=True)
class Row:
    """A corpus' measurements."""

    pairs: int
    first: Start
    steps: Steps


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all sizes and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--steps", type=int, default=60, help="optimizer steps to time")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="pairs of each corpus")
    options = parser.parse_args(arguments)
    rows = [_measure(pairs, options.steps) for pairs in options.sizes]
    print(table(rows))
    draw(rows, PLOT)


def _measure(pairs: int, steps: int) -> Row:
    directory = DIRECTORY / str(pairs)
    _say(f"{pairs:,} pairs: writing the corpus")
    _write_corpus(directory, pairs)
    shutil.rmtree(directory / "run", ignore_errors=True)
    _say(f"{pairs:,} pairs: the first start")
    first = _in_a_process(first_start, directory)
    _say(f"{pairs:,} pairs: {first}; starting again, and {steps} steps")
    row = Row(pairs, first, _in_a_process(take_steps, directory, steps))
    _say(f"{pairs:,} pairs: {row.steps}")
    return row


def _write_corpus(directory: Path, pairs: int) -> None:
    """Write text and its configuration, unless they are there already."""
    config = directory / "config.yaml"
    if config.is_file():
        return
    directory.mkdir(parents=True, exist_ok=True)
    for split, count, seed in (("train", pairs, 1), ("val", VAL_PAIRS, 2)):
        write_pairs(directory / f"{split}.de", directory / f"{split}.en", count, seed)
    config.write_text(CONFIG.format(corpus=directory.resolve()))  # last: the text is complete


# --- measurements, each in its own process --------------------------------------------------------

T = TypeVar("T")


def _in_a_process(function: Callable[..., T], *arguments: object) -> T:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(function, *arguments).result()


def first_start(directory: Path) -> Start:
    """Read, learn, encode and plan, as ``train`` does before its first step."""
    return _start(directory)[1]


def take_steps(directory: Path, steps: int) -> Steps:
    """Start with everything there, and train."""
    trainer, start = _start(directory)
    _forget_peak()
    costs = []
    before = time.perf_counter()
    for progress in trainer.steps():
        now = time.perf_counter()
        costs.append(1e6 * (now - before) / progress.tgt_tokens)
        before = now
        if progress.step == steps:
            break
    return Steps(start, statistics.median(costs), _peak_mb())


def _start(directory: Path) -> "tuple[Trainer, Start]":
    """Everything that ``train`` does before its first step."""
    import torch

    from benchmarks.task import read_texts
    from transformer_cli.config.yaml import load_config
    from transformer_cli.data.store import read_stats
    from transformer_cli.model.device import bound_kernel_caches
    from transformer_cli.model.transformer import build_model
    from transformer_cli.runs.directory import RunDirectory
    from transformer_cli.runs.initialize import initialize_run
    from transformer_cli.text.protocol import PAD_ID
    from transformer_cli.training.preparation import prepare_data
    from transformer_cli.training.trainer import Trainer

    bound_kernel_caches()
    _forget_peak()
    before = time.perf_counter()
    config = load_config(directory / "config.yaml")
    run = RunDirectory(directory / "run")
    texts = read_texts(config, read_stats(run.encoded))
    initialize_run(run, config)
    prepared = prepare_data(config, texts, run)
    sizes = (prepared.tokenizers.src.size, prepared.tokenizers.tgt.size)
    model = build_model(config.model, *sizes, PAD_ID, config.seed)
    trainer = Trainer(model, prepared.pairs, config, torch.float32)
    return trainer, Start(time.perf_counter() - before, _peak_mb())


# --- memory ---------------------------------------------------------------------------------------


def _peak_mb() -> float:
    """The most memory that this process has held since ``_forget_peak``, MB."""
    status = Path("/proc/self/status").read_text()
    kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return int(kilobytes) * 1024 / 1e6


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")  # see man 5 proc


# --- report ---------------------------------------------------------------------------------------


def table(rows: Sequence[Row]) -> str:
    """The measurements as markdown."""
    head = (
        "pairs",
        "first start, s",
        "its peak memory, MB",
        "later start, s",
        "its peak memory, MB",
        "training, ms a 1,000 target tokens",
        "its peak memory, MB",
    )
    lines = []
    for row in rows:
        again = row.steps.start
        cells = (
            f"{row.pairs:,}",
            f"{row.first.seconds:.1f}",
            f"{row.first.peak_mb:.0f}",
            f"{again.seconds:.1f}",
            f"{again.peak_mb:.0f}",
            f"{row.steps.ms_per_1000:.1f}",
            f"{row.steps.peak_mb:.0f}",
        )
        lines.append(cells)
    return markdown_table(head, lines)


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw cost and memory over the corpus' size."""
    from matplotlib import pyplot

    pairs = [row.pairs for row in rows]
    figure, (cost, memory) = pyplot.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    cost.plot(pairs, [row.steps.ms_per_1000 for row in rows], "o-")
    cost.set_title("training, ms a 1,000 target tokens")
    memory.plot(pairs, [row.steps.peak_mb for row in rows], "o-", label="training")
    memory.plot(pairs, [row.steps.start.peak_mb for row in rows], "s--", label="later start")
    memory.plot(pairs, [row.first.peak_mb for row in rows], "^:", label="first start")
    memory.set_title("peak memory, MB")
    memory.legend()
    for axes in (cost, memory):
        axes.set_xscale("log")
        axes.set_xlabel("pairs")
        axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    figure.savefig(path)


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
