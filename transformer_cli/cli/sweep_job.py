"""What ``sweep`` does."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from transformer_cli.child import PYTHON, environment
from transformer_cli.cli.display import bar, line_bar, log, warn
from transformer_cli.cli.options import open_device
from transformer_cli.cli.signals import stop_requests
from transformer_cli.cli.sweep_display import SweepDisplay, format_forecast, format_points
from transformer_cli.config.choices import DeviceName, PrecisionName
from transformer_cli.cores import count_cores
from transformer_cli.errors import MissingExtraError
from transformer_cli.files import write_text
from transformer_cli.metrics import METRICS
from transformer_cli.runs.contents import SWEEP_RUNS
from transformer_cli.sweeps.directory import SweepDirectory
from transformer_cli.sweeps.lease import LeaseBoard
from transformer_cli.sweeps.plan import Plan
from transformer_cli.sweeps.results import read_results, record_plan
from transformer_cli.sweeps.status import read_status
from transformer_cli.sweeps.sweep_file import Sweep
from transformer_cli.sweeps.worker import Worker

STOPPING = "stopping all runs, each with a checkpoint; once more stops at once"


@dataclass(frozen=True)
class SweepJob:
    """A sweep, and how this process takes part in it."""

    sweep: Sweep
    directory: SweepDirectory
    jobs: int
    device: DeviceName
    precision: PrecisionName
    threads: int | None

    @property
    def train_options(self) -> list[str]:
        """The options of each training."""
        return [
            *("--device", self.device),
            *("--precision", self.precision),
            *("--threads", str(self.threads_per_run)),
        ]

    @property
    def threads_per_run(self) -> int:
        """CPU threads of each run: its share of the cores, unless told."""
        return self.threads or max(1, count_cores() // self.jobs)


class SweepOutcome(NamedTuple):
    """How a sweep ended."""

    failed: int
    """Number of tasks that have failed."""
    signal: int | None = None
    """The signal that stopped it before it was finished."""


def run_sweep(job: SweepJob, say: Callable[[str], None]) -> SweepOutcome:
    """Train and score what is left, until nothing is or a signal comes.

    Args:
        job: the sweep.
        say: takes each part of the result, for stdout.
    """
    job.directory.create()
    plan = Plan(job.sweep, job.directory, job.train_options)
    plan.check_trained_alike()
    if not LeaseBoard(job.directory.leases).has_active_workers():
        plan.forget_failures()
    record_plan(plan)
    worker = Worker(plan, make_slots(job))
    with stop_requests(STOPPING) as should_stop, SweepDisplay(plan, job.jobs) as display:
        for event in worker.work(should_stop):
            if event is not None and plan.search is not None:
                record_plan(plan)  # trials were added
            display.show(event, worker.running)
    if should_stop.signal is not None:
        log("stopped; the same command goes on from there")
        return SweepOutcome(0, should_stop.signal)
    record_plan(plan)
    points = read_status(plan)
    say(
        "\n".join(
            [f"{METRICS[plan.metric].label} of the best validation", *format_points(points, plan)]
        )
    )
    if any(point.runs for point in points):
        _conclude(job.directory, say)
    trained = [task for task, _ in plan.train_tasks()]
    failed = [task for task in [*trained, *plan.score_tasks()] if plan.has_failed(task)]
    if failed:
        log(f"{len(failed)} failed: see {job.directory.failures} and {job.directory.logs}")
    return SweepOutcome(len(failed))


def _conclude(directory: SweepDirectory, say: Callable[[str], None]) -> None:
    """Compare the points on the evaluated splits, and write the page."""
    from transformer_cli.cli.sweep_results import format_splits, render_sweep

    results = read_results(directory)
    if results.splits:
        say("\n".join(format_splits(results)))
    try:
        write_text(directory.report, render_sweep(directory, results))
    except MissingExtraError as error:
        log(f"{directory.report}: not written: {error}")
    else:
        log(f"{directory.report}: all runs on one page")


def make_slots(job: SweepJob) -> Sequence[Mapping[str, str]]:
    """Return what the environment of each simultaneous task has besides: its GPU, if any."""
    gpus = _list_gpus() if job.device in ("auto", "cuda") and job.jobs > 1 else []
    if not gpus:
        return [{}] * job.jobs
    return [{"CUDA_VISIBLE_DEVICES": gpus[slot % len(gpus)]} for slot in range(job.jobs)]


def _list_gpus() -> list[str]:
    """Return the names that CUDA_VISIBLE_DEVICES has for this process' GPUs."""
    # In a process of its own, so that this one holds no GPU's memory for hours.
    count = "import torch; print(torch.cuda.device_count())"
    found = subprocess.run(
        [*PYTHON, "-c", count], env=environment(), stdout=subprocess.PIPE, check=False
    )
    gpus = int(found.stdout or 0)
    names = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(gpus)))
    return names.split(",")[:gpus]


def preview_sweep(job: SweepJob) -> str:
    """Return how many runs there are, and what those that are left take."""
    if job.sweep.space is None:
        Plan(job.sweep, job.directory, job.train_options).check_trained_alike()

    from transformer_cli.model.device import use_threads
    from transformer_cli.ranks import SINGLE_PROCESS
    from transformer_cli.sweeps.forecast import Forecaster
    from transformer_cli.training.precision import choose_training_precision

    use_threads(job.threads_per_run)
    device = open_device(job.device)
    precision = choose_training_precision(job.precision, device, SINGLE_PROCESS, say=log)
    left = _count_runs_left(job)
    forecaster = Forecaster(job.sweep, device, precision, line_bar, warn)
    points = [point for point in job.sweep.samples if left[point.name]]
    forecasts = []
    with bar(len(points), "forecast", " points") as done:
        for each in forecaster.forecast(points):
            forecasts.append(each)
            done.update()
    seeds = job.sweep.settings.num_seeds
    return "\n".join(format_forecast(forecasts, left, job.jobs, job.sweep.num_points * seeds))


def _count_runs_left(job: SweepJob) -> dict[str, float]:
    """Return the number of runs that are left of each point, or of what stands for a search's."""
    sweep, directory = job.sweep, job.directory
    seeds = range(1, sweep.settings.num_seeds + 1)
    if sweep.space is None:
        return {
            point.name: sum(not directory.run(point.name, seed).path.is_dir() for seed in seeds)
            for point in sweep.points
        }
    done = len(list((directory.path / SWEEP_RUNS).glob("*/*")))
    runs = max(0, sweep.num_points * len(seeds) - done)
    return {point.name: runs / len(sweep.samples) for point in sweep.samples}
