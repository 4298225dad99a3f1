"""What ``sweep`` does."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from transformer_cli.cli.display import bar, line_bar, log, warn
from transformer_cli.cli.options import open_device
from transformer_cli.cli.signals import stop_requests
from transformer_cli.cli.sweep_display import METRICS, SweepDisplay, format_forecast, format_points
from transformer_cli.cli.sweep_results import format_splits, render_sweep
from transformer_cli.config.choices import DeviceName, PrecisionName
from transformer_cli.errors import MissingExtraError
from transformer_cli.files import write_text
from transformer_cli.sweeps.directory import SweepDirectory
from transformer_cli.sweeps.plan import Plan
from transformer_cli.sweeps.results import SweepResults, read_results, record_plan
from transformer_cli.sweeps.status import read_status
from transformer_cli.sweeps.sweep_file import Sweep
from transformer_cli.sweeps.worker import Worker


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
        return self.threads or max(1, available_cores() // self.jobs)


class Outcome(NamedTuple):
    """How a sweep ended."""

    text: str
    """For stdout."""
    failed: int
    """Runs that have failed."""
    signal: int | None = None
    """The signal that stopped it before it was finished."""


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_sweep(job: SweepJob) -> Outcome:
    """Train and score what is left, until nothing is or a signal comes."""
    job.directory.create()
    plan = Plan(job.sweep, job.directory, job.train_options)
    plan.check_trained_alike()
    plan.forget_failures()
    record_plan(plan)
    worker = Worker(plan, make_slots(job))
    with stop_requests() as should_stop, SweepDisplay(plan, job.jobs) as display:
        for event in worker.work(should_stop):
            display.show(event, worker.running)
    if should_stop.signal is not None:
        log("stopped; the same command goes on from there")
        return Outcome("", 0, should_stop.signal)
    record_plan(plan)
    points = read_status(plan)
    failed = sum(point.failed for point in points)
    lines = [f"{METRICS[plan.metric]} of the best validation", *format_points(points)]
    if any(point.runs for point in points):
        results = read_results(job.directory)
        lines += format_splits(results)
        _write_page(job.directory, results)
    return Outcome("\n".join(lines), failed)


def _write_page(directory: SweepDirectory, results: SweepResults) -> None:
    try:
        write_text(directory.report, render_sweep(directory, results))
    except MissingExtraError as error:
        log(f"{directory.report}: not written: {error}")
    else:
        log(f"{directory.report}: all runs on one page")


def make_slots(job: SweepJob) -> Sequence[Mapping[str, str]]:
    """Return what the environment of each simultaneous task has besides: its GPU, if any."""
    if job.device not in ("auto", "cuda") or job.jobs == 1:
        return [{}] * job.jobs
    import torch

    gpus = torch.cuda.device_count()
    if not gpus:
        return [{}] * job.jobs
    names = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(gpus)))
    visible = names.split(",")
    return [{"CUDA_VISIBLE_DEVICES": visible[slot % gpus]} for slot in range(job.jobs)]


def preview_sweep(job: SweepJob) -> str:
    """Return how many runs there are, and what those that are left take."""
    from transformer_cli.model.device import choose_precision, use_threads
    from transformer_cli.sweeps.forecast import Forecaster

    use_threads(job.threads_per_run)
    device = open_device(job.device)
    precision = choose_precision(job.precision, device)
    plan = Plan(job.sweep, job.directory, job.train_options)
    left = Counter(task.point for task, _ in plan.train_tasks() if not plan.is_done(task))
    forecaster = Forecaster(job.sweep, device, precision, line_bar, warn)
    points = [point for point in plan.points if left[point.name]]
    with bar(len(points), "forecast", " points") as done:
        forecasts = []
        for each in forecaster.forecast(points):
            forecasts.append(each)
            done.update()
    return "\n".join(format_forecast(forecasts, left, job.jobs, len(plan.train_tasks())))
