"""What the commands that run jobs share: their precision, and what runs the jobs."""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

from transformer_cli.base import child
from transformer_cli.base.errors import UsageError
from transformer_cli.base.packages import lazy_imports
from transformer_cli.base.ranks import SINGLE_PROCESS, count_cores
from transformer_cli.cli import options
from transformer_cli.cli.display import log
from transformer_cli.cli.process import exit_code, stop_requests
from transformer_cli.config.choices import DeviceName, PrecisionName
from transformer_cli.extensions.cluster import cluster as clusters
from transformer_cli.extensions.cluster.settings import ClusterSettings
from transformer_cli.extensions.experiments.job import Job, JobDirectory
from transformer_cli.extensions.experiments.runner import Event, Plan, Runner
from transformer_cli.runs.directory import lock_directory

with lazy_imports():
    from transformer_cli.model import device as devices
    from transformer_cli.training import precision as precisions

PATIENCE = 5.0  # seconds in which the processes that a killed one had started have ended


# --- precision ------------------------------------------------------------------------------------


def check_precision(directory: JobDirectory, precision: PrecisionName) -> PrecisionName:
    """Return the precision to resume with, which is that of the beginning.

    Raises:
        UsageError: another one is asked for.
    """
    begun: PrecisionName | None = (directory.read_mark() or {}).get("precision")
    if begun is None or precision in ("auto", begun):
        return begun or precision
    how = "without --precision" if begun == "auto" else f"with --precision {begun}"
    raise UsageError(
        f"--precision {precision}: {directory.path} was begun {how}; resume it so, or choose "
        f"another directory with {directory.option}"
    )


def choose_training_precision(
    directory: JobDirectory, device: DeviceName, precision: PrecisionName, threads: int | None
) -> PrecisionName:
    """Return the precision of all trainings: that of the first ones.

    What 'auto' stands for on a CPU is measured once.
    """
    mark = directory.read_mark()
    if mark is not None:
        return mark.get("training_precision") or precision
    if precision != "auto" or options.open_device(device).type != "cpu":
        return precision
    devices.use_threads(threads)
    cpu = devices.choose_device("cpu")
    chosen = precisions.choose_training_precision("auto", cpu, SINGLE_PROCESS, say=log)
    return "bfloat16" if str(chosen) == "torch.bfloat16" else "float32"


def record_precisions(
    directory: JobDirectory, precision: PrecisionName, training: PrecisionName, **values: object
) -> None:
    """Make a directory of jobs, and record its precisions and other values in its mark."""
    measured = None if training == precision else training
    directory.create(training_precision=measured, precision=precision, **values)


# --- running --------------------------------------------------------------------------------------


class Workers(NamedTuple):
    """Processes here, or workers of a cluster, that run jobs."""

    executor: Executor
    places: Callable[[], Sequence[Mapping[str, str]]]  # see ``Runner.places``
    threads: int  # cores for each job
    lock: int | None  # the directory's, which jobs hold as well; None: they are on a cluster


@contextmanager
def open_workers(
    path: Path, cluster: ClusterSettings | None, device: str = "cpu", jobs: int = 1
) -> Iterator[Workers]:
    """Lock a directory of jobs, and open a cluster or threads that start processes for them."""
    is_remote = cluster is not None
    with lock_directory(path, PATIENCE, is_guarded=is_remote) as lock:
        if cluster is None:
            gpus = list_gpus() if device in ("auto", "cuda") and jobs > 1 else []
            every = cycle([{"CUDA_VISIBLE_DEVICES": gpu} for gpu in gpus] or [{}])
            places = [*islice(every, jobs)]
            with ThreadPoolExecutor(jobs) as executor:
                yield Workers(executor, lambda: places, max(1, count_cores() // jobs), lock)
            return
        with clusters.open_cluster(cluster, log) as remote:
            remote.check_shared(path)
            yield Workers(
                remote.lasting(), lambda: [{}] * max(1, remote.num_workers), remote.threads, None
            )


def run_jobs(
    plan: Plan,
    workers: Workers,
    stopping: str,
    show: Callable[[Event | None, Sequence[Job]], object],
    shows_output: bool = False,
) -> int | None:
    """Run the jobs of a plan until none is left, or until a signal; return the signal's exit code.

    ``stopping`` is what to say after a signal. ``show`` is called with each event, or None a few
    times a second, and with the running jobs.
    """
    with stop_requests(stopping) as requested:
        runner = Runner(plan, workers.executor, workers.lock, workers.places, shows_output)
        for event in runner.run(lambda: requested.signal is not None):
            show(event, runner.running)
    if requested.signal is None:
        return None
    log("stopped; run it again to resume")
    return exit_code(requested.signal)


def list_gpus() -> list[str]:
    """Return the names of this process' GPUs in CUDA_VISIBLE_DEVICES."""
    # Another process asks, so that this one does not hold a GPU's memory for hours.
    count = "import torch; print(torch.cuda.device_count())"
    counted = subprocess.run(
        [*child.PYTHON, "-c", count], env=child.environment(), stdout=subprocess.PIPE, check=False
    )
    gpus = int(counted.stdout or 0)
    names = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(gpus)))
    return names.split(",")[:gpus]
