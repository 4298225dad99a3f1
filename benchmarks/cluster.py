"""What Dask costs: a job by two workers of ``--cluster``, against two processes without it.

    python -m benchmarks.cluster translate RUN --src train.de.gz --lines 100000
    python -m benchmarks.cluster clean --tatoeba deu.txt --pairs 1000000
    python -m benchmarks.cluster engine --workers 200 --tasks 1000

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
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median

import psutil

from benchmarks.cleaning import CONFIG, FILTERS, read_real_pairs, write_pairs
from benchmarks.machine import report_head
from benchmarks.rounds import markdown_table
from transformer_cli.extensions.cluster.cluster import open_cluster, read_cluster
from transformer_cli.text.lines import stream_lines

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
    _add_translate(kinds.add_parser("translate", help="files by one process, and by workers"))
    _add_clean(kinds.add_parser("clean", help="a corpus, by a pool and by workers"))
    _add_engine(kinds.add_parser("engine", help="empty tasks on many workers of one thread each"))
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
    """Translate the same files by one process, and by workers."""
    many = directory / "in"
    many.mkdir()
    of_each = -(-arguments.lines // arguments.files)
    lines = _vary(arguments.src, random.Random(1))
    for number in range(arguments.files):
        text = "".join(islice(lines, of_each))
        (many / f"{number:03}.txt").write_text(text, encoding="utf-8")
    run = ("translate", str(arguments.run.absolute()), "--engine", arguments.engine)

    def command(name: str, *others: str) -> Contestant:
        output = directory / f"{name}.out"
        given = (*PROGRAM, *run, "-i", str(many), "-o", str(output), *others)
        return Contestant(given, output)

    base = f"1 process, {WORKERS} threads"
    contestants = {
        base: command("alone", "--threads", str(WORKERS)),
        f"--cluster, {WORKERS} workers": command(
            "cluster", "--threads", "1", "--cluster", str(write_cluster(directory))
        ),
    }
    taken = run_in_turns(contestants, arguments.rounds)
    alone, cluster = (contestant.output for contestant in contestants.values())
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


# --- clean ----------------------------------------------------------------------------------------


def _add_clean(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tatoeba", type=Path, required=True, help="table of English and German")
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.set_defaults(measure=_measure_clean)


def _measure_clean(arguments: argparse.Namespace, directory: Path) -> None:
    """Clean the same text with this machine's processes and with a cluster's."""
    write_pairs(directory, read_real_pairs(arguments.tatoeba), arguments.pairs)
    config = directory / "corpus.yaml"
    config.write_text(CONFIG.format(directory=directory, filters=FILTERS))

    def command(name: str, *options: str) -> Contestant:
        output = directory / name
        return Contestant((*PROGRAM, "clean", str(config), "-o", str(output), *options), output)

    contestants = {
        "a process a core": command("pool"),
        f"--cluster, {WORKERS} workers": command(
            "cluster", "--cluster", str(write_cluster(directory))
        ),
    }
    taken = run_in_turns(contestants, arguments.rounds)
    pool, cluster = (contestant.output for contestant in contestants.values())
    names = sorted(path.name for path in pool.iterdir())
    assert filecmp.cmpfiles(pool, cluster, names, shallow=False)[0] == names
    print_table(taken, "a process a core")


# --- engine ---------------------------------------------------------------------------------------

_PROCESSES = 10
_WORKERS_OF_A_PROCESS = """
import asyncio, sys
from distributed import Worker
async def main(address, count):
    workers = [Worker(address, nthreads=1, dashboard=False, memory_limit=0) for _ in range(count)]
    await asyncio.gather(*workers)
    await asyncio.gather(*(worker.finished() for worker in workers))
asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


def _add_engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.set_defaults(measure=_measure_engine)


def _measure_engine(arguments: argparse.Namespace, directory: Path) -> None:
    """Submit tasks that do nothing; print the time of each, and the scheduler's own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    port = address.rpartition(":")[2]

    def start(*command: str) -> psutil.Popen:
        nowhere = subprocess.DEVNULL
        return psutil.Popen(
            [sys.executable, *command], cwd=directory, stdout=nowhere, stderr=nowhere
        )

    command = ("-m", "distributed.cli.dask_scheduler", "--no-dashboard", "--port", port)
    count = str(-(-arguments.workers // _PROCESSES))
    scheduler = start(*command)
    processes = [scheduler]
    try:
        for _ in range(_PROCESSES):
            processes.append(start("-c", _WORKERS_OF_A_PROCESS, address, count))
        while not is_reachable(address):
            time.sleep(1)
        with open_cluster(read_cluster(address), print) as cluster:
            while cluster.num_workers < arguments.workers:
                time.sleep(1)
            for _ in range(arguments.rounds):
                began, before = time.monotonic(), sum(scheduler.cpu_times()[:2])
                tasks = [cluster.submit(os.getpid) for _ in range(arguments.tasks)]
                wait(tasks)
                seconds = time.monotonic() - began
                cpu = sum(scheduler.cpu_times()[:2]) - before
                of_each = (1e3 * value / arguments.tasks for value in (seconds, cpu))
                print("ms a task: {:.2f}, of which the scheduler's CPU {:.2f}".format(*of_each))
    finally:
        for process in processes:
            process.kill()


def is_reachable(address: str) -> bool:
    """Return whether a scheduler listens at an address."""
    host, port = address.removeprefix("tcp://").split(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
