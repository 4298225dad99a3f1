"""A sweep as a process of its own, for tests: ``working.py SWEEP DIRECTORY JOBS``."""

import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from transformer_cli.cli.sweep import PATIENCE
from transformer_cli.jobs import runner
from transformer_cli.jobs.runner import Runner
from transformer_cli.jobs.sweep import SweepDirectory, SweepPlan
from transformer_cli.jobs.sweep_file import load_sweep
from transformer_cli.runs.directory import lock_directory

COUNTING = (sys.executable, str(Path(__file__).with_name("counting.py")))


def main() -> None:
    """Run the jobs, and write what happens to stdout."""
    file, path, jobs = sys.argv[1:]
    directory = SweepDirectory(Path(path))
    directory.create()
    plan = SweepPlan(load_sweep(Path(file)), directory, (), int(jobs))
    stops: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stops.append(number))
    vars(runner)["CHILD"] = COUNTING
    with (
        lock_directory(directory.path, PATIENCE) as lock,
        ThreadPoolExecutor(int(jobs)) as executor,
    ):
        runner_ = Runner(plan, executor, lock, lambda: [{}] * int(jobs))
        for event in runner_.run(lambda: bool(stops)):
            if event is not None:
                print(event.kind, event.job.name, event.message, flush=True)


if __name__ == "__main__":
    main()
