"""How fast a training is alone, beside one busy process, and as one of two at once.

    python -m benchmarks.contention --models toy small --precisions float32 bfloat16

For each way of waiting two trainings are started, which train when they are told to. One of them
does for some seconds alone, then beside a process that only counts; then both do. Ways of waiting
are a number, which is libgomp's GOMP_SPINCOUNT, ``passive``, OMP_WAIT_POLICY's word, and
``default``, which is neither. Run it alone on the machine.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from benchmarks.contention_train import MODELS, prepare_model
from benchmarks.environments import ROOT
from benchmarks.machine import report_head
from benchmarks.rounds import THREADS, markdown_table
from transformer_cli.cli import SPIN_COUNT

PRECISIONS = ("float32", "bfloat16")
CASES = ("alone", "beside one", "two at once")
_WARM_UP_SECONDS = 3.0
_VARIABLES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
_BUSY = (sys.executable, "-c", "while True: pass")

Speeds = dict[str, list[float]]
"""By case, target tokens a second in each round."""


_CONDITIONS = """\
Target tokens/s of a training alone, beside a process that keeps a core busy, and of two trainings
at once, {threads} threads each; medians over {rounds} rounds of {seconds:g} s by turns. Behind the
precision, how a waiting thread of libgomp waits: `default`, or that many turns (GOMP_SPINCOUNT; the
command line sets {spins}). `toy` is configs/toy.yaml's model, `small` that of Training."""


def main(arguments: Sequence[str] | None = None) -> str:
    """Measure, and give the report's section on trainings beside other work.

    Args:
        arguments: as on the command line; None takes those.
    """
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    parser.add_argument("--waits", nargs="+", default=("default", SPIN_COUNT))
    parser.add_argument("--seconds", type=float, default=6.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    rows = []
    for model in options.models:
        prepare_model(model)
        for precision in options.precisions:
            speeds = _measure(model, precision, options)
            rows += [row(model, precision, wait, found) for wait, found in speeds.items()]
    conditions = _CONDITIONS.format(
        threads=THREADS, rounds=options.rounds, seconds=options.seconds, spins=SPIN_COUNT
    )
    return "\n\n".join(("## Beside other work", conditions, table(rows)))


def _measure(model: str, precision: str, options: argparse.Namespace) -> dict[str, Speeds]:
    """By way of waiting, which take turns, the speeds."""
    speeds: dict[str, Speeds] = {wait: {case: [] for case in CASES} for wait in options.waits}
    with ExitStack() as stack:
        trainings = {
            wait: [stack.enter_context(_training(model, precision, wait)) for _ in range(2)]
            for wait in options.waits
        }
        for both in trainings.values():
            for training in both:
                _answer(training)  # it is ready
        for both in trainings.values():
            for training in both:
                _speed_of([training], _WARM_UP_SECONDS)
        for _ in range(options.rounds):
            for wait, both in trainings.items():
                print(f"{model}, {precision}, {wait}", file=sys.stderr, flush=True)
                found = speeds[wait]
                found["alone"].append(_speed_of(both[:1], options.seconds))
                with _ended(subprocess.Popen(_BUSY)):
                    found["beside one"].append(_speed_of(both[:1], options.seconds))
                found["two at once"].append(_speed_of(both, options.seconds))
    return speeds


def _speed_of(trainings: Sequence[subprocess.Popen[str]], seconds: float) -> float:
    """The mean of what they do in the same seconds."""
    for training in trainings:
        assert training.stdin is not None
        training.stdin.write(f"{seconds}\n")
        training.stdin.flush()
    return statistics.mean(_answer(training)["tgt_tokens_per_second"] for training in trainings)


def _answer(training: subprocess.Popen[str]) -> dict[str, float]:
    assert training.stdout is not None
    line = training.stdout.readline()
    if not line:
        raise SystemExit(f"a training ended with status {training.wait()}; see above")
    print(f"  {line}", end="", file=sys.stderr, flush=True)
    answer: dict[str, float] = json.loads(line)
    return answer


@contextmanager
def _training(model: str, precision: str, wait: str) -> Iterator[subprocess.Popen[str]]:
    command = (sys.executable, "-m", "benchmarks.contention_train", model, precision)
    others = {key: value for key, value in os.environ.items() if key not in _VARIABLES}
    environment = {**others, "OMP_NUM_THREADS": str(THREADS), **environment_of(wait)}
    started = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with _ended(started):
        yield started


@contextmanager
def _ended(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.kill()
        process.wait()


def environment_of(wait: str) -> dict[str, str]:
    """The variables that make libgomp's threads wait so.

    Args:
        wait: a number, ``passive`` or ``default``.
    """
    if wait == "default":
        return {}
    return {"OMP_WAIT_POLICY" if wait == "passive" else "GOMP_SPINCOUNT": wait}


def row(model: str, precision: str, wait: str, speeds: Speeds) -> tuple[str, ...]:
    """A line of the table: medians, and what part of the speed alone is left."""
    alone, beside, both = (statistics.median(speeds[case]) for case in CASES)
    return (
        f"{model}, {precision}, {wait}",
        f"{alone:,.0f}",
        f"{beside:,.0f}",
        f"{beside / alone:.2f}",
        f"{both:,.0f}",
        f"{alone / both:.1f}",
    )


def table(rows: Sequence[Sequence[str]]) -> str:
    """The measurements as Markdown."""
    header = ("", "alone", "beside one", "of alone", "each of two", "times slower")
    return markdown_table(header, rows)


if __name__ == "__main__":
    section = main()
    print(report_head(f"python -m benchmarks.contention {' '.join(sys.argv[1:])}".strip()))
    print(f"\n{section}")
