"""A sweep as a process of its own, for tests: ``working.py SWEEP DIRECTORY JOBS|ADDRESS``.

On a cluster, workers are started with ``--preload extensions.experiments.working``.
"""

import signal
import sys
from pathlib import Path

from transformer_cli.extensions.cluster.cluster import read_cluster
from transformer_cli.extensions.experiments import child
from transformer_cli.extensions.experiments.runner import Computing, Runner, open_workers
from transformer_cli.extensions.experiments.sweep import SweepDirectory, SweepPlan
from transformer_cli.extensions.experiments.sweep_file import load_sweep

COUNTING = (sys.executable, str(Path(__file__).with_name("counting.py")))

vars(child)["CHILD"] = COUNTING


def main() -> None:
    """Run the jobs, and write what happens to stdout."""
    file, path, where = sys.argv[1:]
    directory = SweepDirectory(Path(path))
    directory.create()
    cluster = read_cluster(where) if "://" in where else None
    jobs = 1 if cluster else int(where)
    plan = SweepPlan(load_sweep(Path(file)), directory, Computing(), jobs)
    stops: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stops.append(number))
    with open_workers(directory.path, cluster, "cpu", jobs) as workers:
        counting = Runner(plan, workers)
        for event in counting.run(lambda: bool(stops)):
            print(event.kind, event.job.name, event.message, flush=True)


if __name__ == "__main__":
    main()
