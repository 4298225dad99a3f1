"""Runs a sweep in its own process, for tests: ``working.py SWEEP DIRECTORY JOBS``."""

import signal
import sys
from pathlib import Path

from transformer_cli.config.schema import Config
from transformer_cli.extensions.experiments import child, job
from transformer_cli.extensions.experiments.runner import PATIENCE, Runner, list_places
from transformer_cli.extensions.experiments.sweep import SweepDirectory, SweepPlan
from transformer_cli.extensions.experiments.sweep_file import load_sweep
from transformer_cli.runs.directory import RunDirectory, lock_directory

COUNTING = Path(__file__).with_name("counting.py")
STEPS = 10


def is_counted(run: RunDirectory, config: Config) -> bool:
    """Return whether the stand-in for a training has counted to its end."""
    counted = run.path / "counted"
    return counted.is_file() and len(counted.read_text()) == STEPS


vars(child)["CHILD"] = (sys.executable, str(COUNTING))
vars(job)["is_trained"] = is_counted


def main() -> None:
    """Run the jobs, and write events to stdout."""
    file, path, jobs = sys.argv[1:]
    directory = SweepDirectory(Path(path))
    plan = SweepPlan(load_sweep(Path(file)), directory)
    stops: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stops.append(number))
    with lock_directory(directory.path, PATIENCE) as lock:
        directory.create("auto", **plan.record)
        counting = Runner(directory, plan.jobs(), lock, list_places("cpu", int(jobs)))
        for event in counting.run(lambda: bool(stops)):
            print(event.what.partition(" ")[0], event.job.name, event.message, flush=True)


if __name__ == "__main__":
    main()
