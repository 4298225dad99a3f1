"""A worker as a process of its own, for tests: ``working.py SWEEP DIRECTORY JOBS``."""

import signal
import sys
from pathlib import Path

from transformer_cli.sweeps.directory import SweepDirectory
from transformer_cli.sweeps.plan import Plan
from transformer_cli.sweeps.sweep_file import load_sweep
from transformer_cli.sweeps.worker import Worker

COUNTING = (sys.executable, str(Path(__file__).with_name("counting.py")))


def main() -> None:
    """Work, and write what happens to stdout."""
    file, directory, jobs = sys.argv[1:]
    sweep = SweepDirectory(Path(directory))
    sweep.create()
    plan = Plan(load_sweep(Path(file)), sweep, ())
    stops: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stops.append(number))
    for event in Worker(plan, [{}] * int(jobs), COUNTING).work(lambda: bool(stops)):
        if event is not None:
            print(event.kind, event.task.name, event.message, flush=True)


if __name__ == "__main__":
    main()
