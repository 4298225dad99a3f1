"""What ``sweep`` does, and what it shows meanwhile."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from transformer_cli.child import PYTHON, environment
from transformer_cli.cli.compare_tables import format_group_scores
from transformer_cli.cli.display import align_columns, bar, log
from transformer_cli.cli.process import exit_code, stop_requests
from transformer_cli.compression import write_text
from transformer_cli.config.choices import DeviceName, PrecisionName
from transformer_cli.errors import MissingExtraError, make_visible
from transformer_cli.evaluation.best_checkpoint import metrics_of_runs
from transformer_cli.evaluation.seed_statistics import MetricComparison, compare_groups
from transformer_cli.jobs.forecast import Forecaster, Training, TrainingForecast
from transformer_cli.jobs.job import Job
from transformer_cli.jobs.runner import Event, Runner
from transformer_cli.jobs.search import Grid
from transformer_cli.jobs.sweep import PointStatus, SweepDirectory, SweepPlan, best_point
from transformer_cli.jobs.sweep_file import Sweep
from transformer_cli.jobs.sweep_results import SweepResults, TranslatedSplit, read_results
from transformer_cli.metrics import METRICS
from transformer_cli.ranks import count_cores
from transformer_cli.runs.groups import read_run_state, run_name
from transformer_cli.training.units import duration, size

STOPPING_RUNS = "stopping all runs, each with a checkpoint; once more stops at once"
_REDRAW_SECONDS = 1.0


# --- a sweep --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SweepRequest:
    """A sweep, and how this process takes part in it."""

    sweep: Sweep
    directory: SweepDirectory
    jobs: int
    device: DeviceName
    precision: PrecisionName
    threads: int | None

    def plan(self, trials: Grid | None = None) -> SweepPlan:
        """Return the jobs; without --threads, each has its share of the cores."""
        threads = self.threads or max(1, count_cores() // self.jobs)
        compute = ("--device", self.device, "--precision", self.precision)
        options = (*compute, "--threads", str(threads))
        return SweepPlan(self.sweep, self.directory, options, self.jobs, trials)


def run_sweep(request: SweepRequest, say: Callable[[str], None]) -> int:
    """Train and score what is left, until nothing is or a signal comes; return the exit code.

    Args:
        request: the sweep.
        say: takes each part of the result, for stdout.
    """
    directory = request.directory
    directory.create()
    directory.remove_leftovers()
    plan = request.plan()
    plan.check_trained_alike()
    plan.record()
    with (
        ThreadPoolExecutor(request.jobs) as executor,  # where jobs run
        stop_requests(STOPPING_RUNS) as should_stop,
        SweepDisplay(plan) as display,
    ):
        runner = Runner(plan, executor, make_slots(request))
        for event in runner.run(should_stop):
            if event is not None and request.sweep.space is not None:
                plan.record()  # trials were added
            display.show(event, runner.running)
    if should_stop.signal is not None:
        log("stopped; the same command goes on from there")
        return exit_code(should_stop.signal)
    plan.record()
    status = plan.read_status()
    rows = [[point.name, _count(point), _score(point)] for point in status]
    title = f"{METRICS[plan.metric].label} of the best validation"
    say("\n".join([title, *align_columns([["point", "seeds", "mean"], *rows])]))
    if any(point.scores for point in status):
        results = read_results(directory)
        if results.splits:
            say("\n".join(format_splits(results)))
        try:
            write_text(directory.report, render_sweep(directory, results))
            log(f"{directory.report}: all runs on one page")
        except MissingExtraError as error:
            log(f"{directory.report}: not written: {error}")
    failed = [job for job in directory.failed if not job.startswith("data/")]
    if failed:
        log(f"{len(failed)} failed: see the logs in {directory.path / 'jobs'}")
    return 1 if failed else 0


def make_slots(request: SweepRequest) -> Sequence[Mapping[str, str]]:
    """Return what the environment of each simultaneous job has besides: its GPU, if any."""
    gpus = list_gpus() if request.device in ("auto", "cuda") and request.jobs > 1 else []
    if not gpus:
        return [{}] * request.jobs
    return [{"CUDA_VISIBLE_DEVICES": gpus[slot % len(gpus)]} for slot in range(request.jobs)]


def list_gpus() -> list[str]:
    """Return the names that CUDA_VISIBLE_DEVICES has for this process' GPUs."""
    # In a process of its own, so that this one holds no GPU's memory for hours.
    count = "import torch; print(torch.cuda.device_count())"
    counted = subprocess.run(
        [*PYTHON, "-c", count], env=environment(), stdout=subprocess.PIPE, check=False
    )
    gpus = int(counted.stdout or 0)
    names = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(gpus)))
    return names.split(",")[:gpus]


class SweepDisplay:
    """A table that is redrawn on a terminal; elsewhere a line for each event."""

    def __init__(self, plan: SweepPlan) -> None:
        self.plan = plan
        self._console = Console(file=sys.stderr)
        self._live = Live(console=self._console, auto_refresh=False)
        self._drawn = 0.0

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def show(self, event: Event | None, running: Sequence[Job]) -> None:
        """Show an event, or draw the table again."""
        if event is not None:
            self._log(event)
        is_due = event is not None or time.monotonic() - self._drawn > _REDRAW_SECONDS
        if self._console.is_terminal and is_due:
            self._drawn = time.monotonic()
            self._live.update(self._table(running), refresh=True)

    def _log(self, event: Event) -> None:
        line = event.describe()
        if event.kind == "done" and event.job.config is not None:
            line += f"; {self._left(self.plan.read_status())}"
        if not self._console.is_terminal:
            log(line)
        elif event.kind in ("failed", "waiting"):
            self._console.print(make_visible(line), markup=False, highlight=False)

    def _left(self, points: list[PointStatus]) -> str:
        done = sum(len(point.scores) for point in points)
        text = f"{done} of {self.plan.num_runs} runs"
        if (best := best_point(points, self.plan.metric)) is not None:
            text += f", best so far {best.name} {best.mean:.2f}"
        left = self.plan.seconds_left()
        return f"{text}, {duration(left)} left" if left else text

    def _table(self, running: Sequence[Job]) -> Group:
        points = self.plan.read_status()
        best = best_point(points, self.plan.metric)
        table = Table("point", "seeds", METRICS[self.plan.metric].label)
        for point in points:
            style = "bold" if point is best else None
            table.add_row(make_visible(point.name), _count(point), _score(point), style=style)
        names = ", ".join(job.name for job in running)
        head = f"{self.plan.directory.path}: {self._left(points)}\nrunning: {names or 'nothing'}"
        return Group(Text(make_visible(head)), table)


def _count(point: PointStatus) -> str:
    """Return the number of a point's finished runs, and what became of others."""
    failed = f", {point.num_failed} failed" if point.num_failed else ""
    return f"{len(point.scores)}{', pruned' if point.is_pruned else ''}{failed}"


def _score(point: PointStatus) -> str:
    if point.mean is None:
        return "-"
    deviation = "" if point.deviation is None else f" ± {point.deviation:.2f}"
    return f"{point.mean:.2f}{deviation}"


# --- its results ----------------------------------------------------------------------------------


def _compare_splits(
    results: SweepResults,
) -> Iterator[tuple[TranslatedSplit, dict[str, MetricComparison]]]:
    """Compare the points of each split with the reference, if it has translations of it."""
    if not results.splits:
        return
    reference = results.groups[results.reference]
    runs = [run for group in results.groups for run in group.runs]
    metrics = metrics_of_runs(reference.runs[0].load_config(), runs, log)
    for split in results.splits:
        given = split.translations, split.text.tgt
        is_there = reference.name in split.groups
        number = split.groups.index(reference.name) if is_there else None
        yield split, compare_groups(*given, number, metrics)


def format_splits(results: SweepResults) -> list[str]:
    """Return the lines of a table for each evaluated split."""
    lines: list[str] = []
    try:
        for split, compared in _compare_splits(results):
            lines += ["", f"{split.name}: {len(split.text):,} sentences"]
            for name, metric in compared.items():
                lines += ["", *format_group_scores(METRICS[name].label, split.groups, metric)]
    except MissingExtraError as error:
        return [*lines, "", str(error)]
    lines += ["", "mean: over seeds, ± their standard deviation. interval: of the mean."]
    if len(results.groups) > 1:
        reference = results.groups[results.reference].name
        holm = ", and after Holm's correction" if len(results.groups) > 2 else ""
        lines += [
            f"difference: from {reference}, with p by a test over seeds and sentences{holm};",
            "needed: seeds that show such a difference 4 times in 5",
        ]
    return lines


def render_sweep(directory: SweepDirectory, results: SweepResults) -> str:
    """Return the page about a sweep.

    Raises:
        MissingExtraError: plotly, Jinja or scipy is not installed.
    """
    from transformer_cli.report.groups_page import EvaluatedSplit, describe_groups, render_groups
    from transformer_cli.report.rendering import plotly_script

    script = plotly_script()
    evaluated = [
        EvaluatedSplit(
            split.name, split.text.src, split.text.tgt, split.groups, split.translations, compared
        )
        for split, compared in _compare_splits(results)
    ]
    page = describe_groups(
        directory.path.name,
        results.groups,
        results.settings,
        results.metric,
        evaluated,
        results.unfinished,
        results.reference,
    )
    return render_groups(page, script)


# --- its forecast ---------------------------------------------------------------------------------


def preview_sweep(request: SweepRequest) -> str:
    """Return how many runs there are, and what those that are left take."""
    request.directory.check()
    plan = request.plan(Grid(request.sweep.samples))
    if request.sweep.space is None:
        plan.check_trained_alike()
    left = _count_runs_left(request, plan)
    trainings = {}
    for run in plan.runs():
        config = run.job.config
        if left[run.point.name] and run.seed == plan.seeds[0] and config is not None:
            vocab = run.data.command[:-2]  # without its run directory
            trainings[run.point.name] = Training(run.job.command, vocab, config, run.directory)
    forecasts = {}
    with (
        tempfile.TemporaryDirectory(prefix="transformer-cli-") as directory,
        bar(len(trainings), "forecast", " points") as done,
    ):
        forecaster = Forecaster(Path(directory), [*trainings.values()], log)
        for point, training in trainings.items():
            forecasts[point] = forecaster.forecast(training)
            done.update()
    num_runs = request.sweep.num_points * len(plan.seeds)
    return "\n".join(format_forecast(forecasts, left, request.jobs, num_runs))


def _count_runs_left(request: SweepRequest, plan: SweepPlan) -> dict[str, float]:
    """Return the number of runs that are left of each point, or of what stands for a search's."""
    if request.sweep.space is None:
        left = dict.fromkeys((point.name for point in request.sweep.points), 0.0)
        for run in plan.runs():
            left[run.point.name] += not request.directory.seems_done(run.job)
        return left
    runs = request.sweep.num_points * len(plan.seeds)
    sweep = request.directory.path
    for path in sweep.glob(run_name("*", "*")):
        runs -= read_run_state(sweep, path.relative_to(sweep).as_posix()) == "done"
    return {point.name: runs / len(request.sweep.samples) for point in request.sweep.samples}


def format_forecast(
    forecasts: Mapping[str, TrainingForecast],
    left: Mapping[str, float],
    jobs: int,
    num_runs: int,
) -> list[str]:
    """Return the lines of a table of what the runs that are left take, and the sums."""
    num_left = round(sum(left.values()))
    lines = [f"{num_runs - num_left} of {num_runs} runs are done"]
    if not num_left:
        return lines
    rows = [["point", "runs", "time of each", "disk of each"]]
    for point, each in forecasts.items():
        seconds = "?" if each.seconds is None else duration(each.seconds)
        rows.append([point, f"{left[point]:.3g}", seconds, size(each.disk)])
    time_left = sum((each.seconds or 0.0) * left[point] for point, each in forecasts.items())
    disk = round(sum(each.disk * left[point] for point, each in forecasts.items()))
    memory = jobs * max((each.memory or 0 for each in forecasts.values()), default=0)
    lines += ["", *align_columns(rows), ""]
    lines.append(
        f"{num_left} runs, {jobs} at a time: about {duration(time_left / jobs)}, validations and "
        f"scoring not counted; {size(disk)} of disk for checkpoints, at least {size(memory)} of "
        "memory"
    )
    unknown = [point for point, each in forecasts.items() if each.seconds is None]
    if unknown:
        lines.append(f"no forecast of {', '.join(unknown)}: a step does not fit into memory")
    return lines
