"""What Dask costs: a job by two workers of ``--cluster``, against two processes without it.

    python -m benchmarks.cluster translate RUN --src train.de.gz --lines 100000
    python -m benchmarks.cluster sweep

Contestants take turns, so that a slow spell of the machine hits each of them. CPU seconds are of
all processes that a command starts; with other work on the machine they tell more than wall
seconds. Not part of ``make bench``.
"""

import argparse
import filecmp
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median

from benchmarks.machine import report_head
from benchmarks.rounds import markdown_table
from transformer_cli.data.corpus import stream_lines

PROGRAM = ("-m", "transformer_cli")
WORKERS = 2


@dataclass(frozen=True)
class Contestant:
    """A command, as arguments of Python, and the path that it makes."""

    arguments: Sequence[str]
    output: Path


@dataclass(frozen=True)
class Taken:
    """Seconds that a command took."""

    wall: float
    cpu: float


def main() -> None:
    """Measure one kind of job, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    kinds = parser.add_subparsers(required=True)
    _add_translate(kinds.add_parser("translate", help="files by workers, one by torchrun"))
    _add_sweep(kinds.add_parser("sweep", help="four trainings, two at a time"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        arguments.measure(arguments, Path(directory))


def write_cluster(directory: Path) -> Path:
    """Write the file of a cluster of this machine, and return its path."""
    path = directory / "cluster.yaml"
    path.write_text(f"local: {{workers: {WORKERS}}}\n")
    return path


def run_in_turns(contestants: Mapping[str, Contestant], rounds: int) -> dict[str, list[Taken]]:
    """Run each contestant once a round; outputs of the last round stay."""
    taken: dict[str, list[Taken]] = {name: [] for name in contestants}
    for number in range(1, rounds + 1):
        for name, contestant in contestants.items():
            _remove(contestant.output)
            taken[name].append(_run(contestant.arguments))
            print(f"round {number}, {name}: {taken[name][-1]}", file=sys.stderr, flush=True)
    return taken


def print_table(taken: Mapping[str, Sequence[Taken]], base: str) -> None:
    """Print the medians, and what they are of those of ``base``."""
    medians = {
        name: Taken(median(each.wall for each in of_name), median(each.cpu for each in of_name))
        for name, of_name in taken.items()
    }
    rows = [
        (
            name,
            f"{each.wall:.1f}",
            f"{each.wall / medians[base].wall:.3f}",
            f"{each.cpu:.1f}",
            f"{each.cpu / medians[base].cpu:.3f}",
        )
        for name, each in medians.items()
    ]
    print(report_head(f"python -m benchmarks.cluster {' '.join(sys.argv[1:])}"))
    print(markdown_table(("", "wall, s", "of that", "CPU, s", "of that"), rows))


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def _run(arguments: Sequence[str]) -> Taken:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(
        [sys.executable, *arguments], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Taken(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


# --- translate ------------------------------------------------------------------------------------


def _add_translate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path)
    parser.add_argument("--src", type=Path, nargs="+", required=True, help="text to repeat")
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--engine", default="ctranslate2")
    parser.add_argument("--rounds", type=int, default=2)
    parser.set_defaults(measure=_measure_translate)


def _measure_translate(arguments: argparse.Namespace, directory: Path) -> None:
    """Translate the same lines as files and as one file."""
    one, many = directory / "one.txt", directory / "in"
    many.mkdir()
    of_each = -(-arguments.lines // arguments.files)
    lines = _vary(arguments.src, random.Random(1))
    with one.open("w", encoding="utf-8") as whole:
        for number in range(arguments.files):
            text = "".join(islice(lines, of_each))
            (many / f"{number:03}.txt").write_text(text, encoding="utf-8")
            whole.write(text)
    run = ("translate", str(arguments.run.absolute()), "--engine", arguments.engine)
    torchrun = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={WORKERS}")

    def command(name: str, input_: Path, *others: str, start: Sequence[str] = ()) -> Contestant:
        output = directory / f"{name}.out"
        given = (*start, *PROGRAM, *run, "-i", str(input_), "-o", str(output), *others)
        return Contestant(given, output)

    base = f"torchrun, {WORKERS} processes, one file"
    contestants = {
        base: command("torchrun", one, "--threads", "1", start=torchrun),
        f"1 process, {WORKERS} threads": command("alone", many, "--threads", str(WORKERS)),
        f"--cluster, {WORKERS} workers": command(
            "cluster", many, "--threads", "1", "--cluster", str(write_cluster(directory))
        ),
    }
    taken = run_in_turns(contestants, arguments.rounds)
    _, alone, cluster = (contestant.output for contestant in contestants.values())
    names = [path.name for path in many.iterdir()]
    assert filecmp.cmpfiles(alone, cluster, names, shallow=False)[0] == names
    print_table(taken, base)


def _vary(paths: Sequence[Path], draw: random.Random) -> Iterator[str]:
    """Repeat the lines of texts for ever; from the second time on, two words change places."""
    lines = [line.split() for path in paths for line in stream_lines(path)]
    yield from (f"{' '.join(words)}\n" for words in lines)
    while True:
        for words in lines:
            changed = list(words)
            if len(words) > 1:
                first, second = draw.sample(range(len(words)), 2)
                changed[first], changed[second] = changed[second], changed[first]
            yield f"{' '.join(changed)}\n"


# --- sweep ----------------------------------------------------------------------------------------

_BASE = """\
data: {kind: copy, symbols: 50, length: 12, train_lines: 4000, test_lines: 100}
tokenizer: {kind: words, min_freq: 1}
model: {d_model: 64, num_heads: 4, d_ff: 256, num_encoder_layers: 2, num_decoder_layers: 2}
training:
  epochs: EPOCHS
  batch_tokens: 2000
  schedule: {kind: constant, peak: 3e-3, warmup: 10}
"""
_SWEEP = "base: base.yaml\nseeds: 2\ngrid: {model.dropout: [0.0, 0.1]}\n"


def _add_sweep(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.set_defaults(measure=_measure_sweep)


def _measure_sweep(arguments: argparse.Namespace, directory: Path) -> None:
    """Train two points with two seeds each."""
    base, file = directory / "base.yaml", directory / "sweep.yaml"
    base.write_text(_BASE.replace("EPOCHS", str(arguments.epochs)))
    file.write_text(_SWEEP)
    os.chdir(directory)  # which jobs run in
    fixed = ("--threads", "1", "--precision", "float32", "--device", "cpu")

    def command(name: str, *options: str) -> Contestant:
        output = directory / name
        given = (*PROGRAM, "sweep", str(file), "--sweep-dir", str(output), *options, *fixed)
        return Contestant(given, output)

    contestants = {
        f"--jobs {WORKERS}": command("jobs", "--jobs", str(WORKERS)),
        f"--cluster, {WORKERS} workers": command(
            "cluster", "--cluster", str(write_cluster(directory))
        ),
    }
    taken = run_in_turns(contestants, arguments.rounds)
    print_table(taken, f"--jobs {WORKERS}")


if __name__ == "__main__":
    main()
