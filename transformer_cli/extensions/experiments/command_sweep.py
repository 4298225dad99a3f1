"""``transformer-cli sweep``: its runs, the forecast of what they take, and their results."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from transformer_cli.base.errors import MissingExtraError, RunError, UsageError, make_visible
from transformer_cli.base.metrics import METRICS, TRAIN_LONGER
from transformer_cli.base.packages import lazy_imports
from transformer_cli.base.ranks import SINGLE_PROCESS, count_cores
from transformer_cli.cli import options
from transformer_cli.cli.declaring import argument, flag, option
from transformer_cli.cli.display import align_columns, bar, log, say
from transformer_cli.cli.process import exit_code, stop_requests
from transformer_cli.extensions.cluster.options import Cluster

with lazy_imports():
    from transformer_cli.base import child, compression, errors, files
    from transformer_cli.config import differences
    from transformer_cli.data import sources
    from transformer_cli.evaluation import best_checkpoint
    from transformer_cli.extensions.cluster import cluster as clusters
    from transformer_cli.extensions.experiments import (
        command_compare as compare,
        forecast,
        groups as run_groups,
        runner as runners,
        search,
        seed_statistics,
        sweep as plans,
        sweep_file,
    )
    from transformer_cli.extensions.report import groups_page, rendering
    from transformer_cli.model import device as devices
    from transformer_cli.runs import directory as directories, initialize
    from transformer_cli.training import precision as precisions

if TYPE_CHECKING:
    from rich.console import Group

    from transformer_cli.config.choices import DeviceName, PrecisionName
    from transformer_cli.extensions.cluster import settings as cluster_schema
    from transformer_cli.extensions.experiments import job
    from transformer_cli.extensions.experiments.job import Job

STOPPING_RUNS = "stopping all runs, each with a checkpoint; once more stops at once"
PATIENCE = 5.0  # seconds in which what a killed process had started has ended
_REDRAW_SECONDS = 1.0
_MAX_BYTES = 1 << 28  # of the translations of a split: of a million lines
_UNFINISHED = {"done": "", "failed": "failed", "pruned": "pruned"}
"""Why a run has not finished, by the state of its job."""

_ABOUT_FILE = "YAML file: base, a configuration; seeds, a number; grid, values of settings."
_ABOUT_DIR = "Directory of the sweep.  [default: sweeps/FILE's name]"
_ABOUT_DRY_RUN = "Print how many runs, how long and how much disk, then exit."


def sweep(
    file: Annotated[Path, argument("FILE", _ABOUT_FILE)],
    sweep_dir: Annotated[Path | None, option("DIR", _ABOUT_DIR)] = None,
    jobs: Annotated[int, option("N", "Runs that are trained side by side.", min=1, max=1000)] = 1,
    cluster: Cluster = None,
    dry_run: Annotated[bool, flag(_ABOUT_DRY_RUN, "--dry-run")] = False,
    allow_suspect_data: options.AllowSuspectData = False,
    device: options.Device = "auto",
    precision: options.TrainingPrecision = "auto",
    threads: options.Threads = None,
) -> None:
    """Train many variations of a configuration, each with several seeds, and compare them.

    Run the same command again to resume. Without --threads, each run has its share of the cores.
    With --cluster, each worker trains a run at a time; what runs goes on without this command.

    \b
    Example:
      transformer-cli sweep configs/sweeps/copy.yaml --jobs 2
    """
    loaded = sweep_file.load_sweep(file)
    path = sweep_dir or Path("sweeps") / file.stem
    options.check_name(path, "--sweep-dir")
    directory = plans.SweepDirectory(path)
    settings = None if cluster is None else clusters.read_cluster(cluster)
    if settings is not None and jobs > 1 and not dry_run:
        log("--jobs is left out, as with --cluster each worker has a job at a time")

    directory.check()
    precision = check_precision(directory, precision)

    def make_plan(
        share: int, num_jobs: int, training_precision: "PrecisionName | None"
    ) -> "plans.SweepPlan":
        evaluation, training = (
            ("--device", device, "--precision", each, "--threads", str(threads or share))
            for each in (precision, training_precision or precision)
        )
        suspect = ("--allow-suspect-data",) if allow_suspect_data else ()
        return plans.SweepPlan(loaded, directory, evaluation, num_jobs, training, suspect)

    # One that was begun without goes on as it was: each of its runs keeps its precision.
    is_alike = directory.read_mark() is None or directory.training_precision is not None
    if dry_run:
        share = max(1, count_cores() // jobs)
        compute = (directory, device, precision, threads or share)
        training = measure_precision(*compute) if is_alike else None
        say("\n".join(preview_sweep(make_plan(share, jobs, training))))
        return
    with open_engine(path, settings, device, jobs) as engine:
        compute = (directory, device, precision, threads or engine.threads)
        training = settle_precision(*compute) if is_alike else None
        raise typer.Exit(
            run_sweep(make_plan(engine.threads, len(engine.places()), training), engine)
        )


def check_precision(directory: "job.JobDirectory", precision: "PrecisionName") -> "PrecisionName":
    """Return the precision to resume with, which is that of the beginning.

    Raises:
        UsageError: another one is asked for.
    """
    begun = directory.precision
    if begun is None or precision in ("auto", begun):
        return begun or precision
    how = "without --precision" if begun == "auto" else f"with --precision {begun}"
    raise UsageError(
        f"--precision {precision}: {directory.path} was begun {how}; resume it so, or choose "
        f"another directory with {directory.option}"
    )


def settle_precision(
    directory: "job.JobDirectory",
    device: "DeviceName",
    precision: "PrecisionName",
    threads: int | None,
    **values: object,
) -> "PrecisionName | None":
    """Return what ``measure_precision`` does.

    The directory is made, and marked with it, ``precision`` and ``values``.
    """
    measured = measure_precision(directory, device, precision, threads)
    known = measured or directory.training_precision
    directory.create(training_precision=known, precision=precision, **values)
    return measured


def measure_precision(
    directory: "job.JobDirectory",
    device: "DeviceName",
    precision: "PrecisionName",
    threads: int | None,
) -> "PrecisionName | None":
    """Return what ``--precision auto`` stands for in new trainings, which is measured once.

    None: each training has the precision as it is given.
    """
    if precision != "auto":
        return None
    known = directory.training_precision
    if known is None and options.open_device(device).type == "cpu":
        devices.use_threads(threads)
        cpu = devices.choose_device("cpu")
        chosen = precisions.choose_training_precision("auto", cpu, SINGLE_PROCESS, say=log)
        known = "bfloat16" if str(chosen) == "torch.bfloat16" else "float32"
    return known


class Engine(NamedTuple):
    """What runs jobs."""

    executor: Executor
    places: Callable[[], Sequence[Mapping[str, str]]]  # see ``Runner.places``
    threads: int  # cores for each job
    lock: int | None  # the directory's, which jobs hold as well; None: they are on a cluster


@contextmanager
def open_engine(
    path: Path, cluster: "cluster_schema.ClusterSettings | None", device: str = "cpu", jobs: int = 1
) -> Iterator[Engine]:
    """Lock a directory of jobs; open what runs them: a cluster, or threads that start processes."""
    is_remote = cluster is not None
    with directories.lock_directory(path, PATIENCE, is_guarded=is_remote) as lock:
        if cluster is None:
            gpus = list_gpus() if device in ("auto", "cuda") and jobs > 1 else []
            every = cycle([{"CUDA_VISIBLE_DEVICES": gpu} for gpu in gpus] or [{}])
            places = [*islice(every, jobs)]
            with ThreadPoolExecutor(jobs) as executor:
                yield Engine(executor, lambda: places, max(1, count_cores() // jobs), lock)
            return
        with clusters.open_cluster(cluster, log) as remote:
            remote.check_shared(path)
            yield Engine(
                remote.lasting(), lambda: [{}] * max(1, remote.num_workers), remote.threads, None
            )


def run_sweep(plan: "plans.SweepPlan", engine: Engine) -> int:
    """Train and score what is left, and say the results; return the exit code."""
    directory = plan.directory
    directory.remove_leftovers()
    plan.check_trained_alike()
    plan.record()
    with show_jobs(plan) as show:
        stop = run_jobs(plan, engine, STOPPING_RUNS, show)
    if stop is not None:
        return stop
    plan.record()
    status = plan.read_status()
    rows = [[point.name, point.count_runs(), point.format_score()] for point in status]
    title = f"{METRICS[plan.metric].label} of the best validation"
    note = [TRAIN_LONGER] if plans.are_all_low(status, plan.metric) else []
    say("\n".join([title, *align_columns([["point", "seeds", "mean"], *rows]), *note]))
    if any(point.scores for point in status):
        try:
            results = read_results(directory)
            if results.splits:
                say("\n".join(format_splits(results)))
            compression.write_text(directory.report, render_sweep(results))
            log(f"{directory.report}: all runs on one page")
        except MissingExtraError as error:
            log(f"{directory.report}: not written: {error}")
    if isinstance(plan.trials, search.Search) and (unfit := plan.trials.unfit):
        number, why = unfit[-1].number + 1, unfit[-1].why
        log(f"trials whose settings do not go together: {len(unfit)}; of trial {number}: {why}")
    failed = [job for job in directory.failed if not job.startswith("data/")]
    if failed:
        log(f"{len(failed)} failed: see the logs in {directory.path / 'jobs'}")
    return 1 if failed else 0


def run_jobs(
    plan: "runners.Plan",
    engine: Engine,
    stopping: str,
    show: "Callable[[runners.Event | None, Sequence[Job]], object]",
    shows_output: bool = False,
) -> int | None:
    """Run the jobs of a plan until none is left, or until a signal, whose exit code is returned.

    ``stopping`` answers a signal. ``show`` takes what happens, or None a few times a second, and
    the jobs that run.
    """
    with stop_requests(stopping) as requested:
        runner = runners.Runner(plan, engine.executor, engine.lock, engine.places, shows_output)
        for event in runner.run(lambda: requested.signal is not None):
            show(event, runner.running)
    if requested.signal is None:
        return None
    log("stopped; run it again to resume")
    return exit_code(requested.signal)


def list_gpus() -> list[str]:
    """Return the names that CUDA_VISIBLE_DEVICES has for this process' GPUs."""
    # In a process of its own, so that this one holds no GPU's memory for hours.
    count = "import torch; print(torch.cuda.device_count())"
    counted = subprocess.run(
        [*child.PYTHON, "-c", count], env=child.environment(), stdout=subprocess.PIPE, check=False
    )
    gpus = int(counted.stdout or 0)
    names = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(gpus)))
    return names.split(",")[:gpus]


@contextmanager
def show_jobs(
    plan: "plans.SweepPlan",
) -> "Iterator[Callable[[runners.Event | None, Sequence[Job]], None]]":
    """Give what shows events: a table that is redrawn on a terminal; elsewhere a line for each."""
    from rich.console import Console
    from rich.live import Live

    console = Console(file=sys.stderr)
    if not console.is_terminal:

        def log_event(event: "runners.Event | None", _: object) -> None:
            if event is not None:
                is_run = event.kind == "done" and event.job.config is not None
                log(event.describe() + (f"; {plan.describe_rest()}" if is_run else ""))

        yield log_event
        return
    drawn = 0.0

    def show(event: "runners.Event | None", running: "Sequence[Job]") -> None:
        nonlocal drawn
        if event is not None and event.kind == "failed":
            console.print(make_visible(event.describe()), markup=False, highlight=False)
        if event is not None or time.monotonic() - drawn > _REDRAW_SECONDS:
            drawn = time.monotonic()
            live.update(_table(plan, running), refresh=True)

    with Live(console=console, auto_refresh=False) as live:
        yield show


def _table(plan: "plans.SweepPlan", running: "Sequence[Job]") -> "Group":
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    points = plan.read_status()
    best = plans.best_point(points, plan.metric)
    table = Table("point", "seeds", METRICS[plan.metric].label)
    for point in points:
        style = "bold" if point is best else None
        name = make_visible(point.name)
        table.add_row(name, point.count_runs(), point.format_score(), style=style)
    names = ", ".join(job.name for job in running)
    head = f"{plan.directory.path}: {plan.describe_rest()}\nrunning: {names or 'nothing'}"
    return Group(Text(make_visible(head)), table)


# --- its forecast ---------------------------------------------------------------------------------


def preview_sweep(plan: "plans.SweepPlan") -> Iterator[str]:
    """Yield the lines of a table of what the runs that are left take, and the sums."""
    plan.directory.check()
    if plan.sweep.space is None:
        plan.check_trained_alike()
    else:  # a search, of which nothing is begun here: points that stand for those to come
        plan.trials = search.Grid(plan.sweep.samples)
    left = plan.count_runs_left()
    num_left, num_runs = round(sum(left.values())), plan.sweep.num_points * len(plan.seeds)
    yield f"{num_runs - num_left} of {num_runs} runs have ended"
    if not num_left:
        return
    forecasts, pairs = _forecast_points(plan, [point for point, number in left.items() if number])
    rows = [["point", "runs", "time of each", "disk of each"]]
    seconds = disk = scoring = 0.0
    for point, run in forecasts.items():
        time_of_each = "?" if run.seconds is None else errors.duration(run.seconds)
        rows.append([point, f"{left[point]:.3g}", time_of_each, errors.size(run.disk)])
        seconds += (run.seconds or 0.0) * left[point] / plan.num_jobs
        scoring += run.time_scoring(pairs[point]) * left[point] / plan.num_jobs
        disk += run.disk * left[point]
    memory = plan.num_jobs * max(run.memory or 0 for run in forecasts.values())
    yield from ["", *align_columns(rows), ""]
    yield (
        f"{num_left} runs, {plan.num_jobs} at a time: about {errors.duration(seconds + scoring)}, "
        f"including {errors.duration(scoring)} for scoring; {errors.size(round(disk))} of disk for "
        f"checkpoints, at least {errors.size(memory)} of memory"
    )
    unknown = [point for point, run in forecasts.items() if run.seconds is None]
    if unknown:
        yield f"no forecast of {', '.join(unknown)}: a step does not fit into memory"


def _forecast_points(
    plan: "plans.SweepPlan", points: Sequence[str]
) -> "tuple[dict[str, forecast.JobForecast], dict[str, int]]":
    """Forecast the first run of each point that is not done; count the pairs it is scored on."""
    trainings: dict[str, Job] = {}
    for run in plan.runs():
        if run.point.name in points and not plan.directory.seems_done(run.job):
            trainings.setdefault(run.point.name, run.job)
    forecasts, pairs = {}, {}
    with (
        tempfile.TemporaryDirectory(prefix="transformer-cli-") as directory,
        bar(len(trainings), "forecast", " points") as done,
    ):
        forecaster = forecast.Forecaster(Path(directory), [*trainings.values()], log)
        for point, training in trainings.items():
            forecasts[point] = forecaster.forecast(training)
            pairs[point] = forecaster.count_pairs(training, plan.sweep.settings.evaluate)
            done.update()
    return forecasts, pairs


# --- its results ----------------------------------------------------------------------------------


class SweepResults(NamedTuple):
    """All points that have begun, in the order of the sweep's file: what their page is made of."""

    title: str
    groups: "list[run_groups.RunGroup]"
    settings: dict[str, list[object]]
    metric: str
    splits: "list[groups_page.EvaluatedSplit]"
    unfinished: dict[Path, str]
    reference: int


def read_results(directory: "plans.SweepDirectory") -> SweepResults:
    """Read what a sweep has reached so far, and compare the translations."""
    plan = run_groups.read_sweep_plan(directory.path)
    unfinished: dict[Path, str] = {}
    groups = []
    for point in plan["points"]:
        runs = [directory.run(point, seed) for seed in plan["seeds"]]
        begun = tuple(run for run in runs if run.config.is_file())
        if begun:
            groups.append(run_groups.RunGroup(point, begun))
        for run in begun:
            name = run.path.relative_to(directory.path).as_posix()
            state = run_groups.read_run_state(directory.path, name) or ""
            if why := _UNFINISHED.get(state, "unfinished"):
                unfinished[run.path] = why
    if not groups:
        raise RunError(f"{directory.path}: no run has begun; run the sweep first")
    names = [group.name for group in groups]
    reference = names.index(plan["reference"]) if plan["reference"] in names else 0
    settings = differences.differing_settings([group.runs[0].load_config() for group in groups])
    settings.pop("seed", None)
    splits = [*_read_splits(directory, plan, groups, groups[reference])]
    title, metric = directory.path.name, plan["metric"]
    return SweepResults(title, groups, settings, metric, splits, unfinished, reference)


def _read_splits(
    directory: "plans.SweepDirectory",
    plan: dict[str, Any],
    groups: "list[run_groups.RunGroup]",
    reference: "run_groups.RunGroup",
) -> "Iterator[groups_page.EvaluatedSplit]":
    """Yield the splits that have translations, with comparisons of their points."""
    if not plan["evaluate"]:
        return
    runs = [run for group in groups for run in group.runs]
    metrics = best_checkpoint.metrics_of_runs(reference.runs[0].load_config(), runs, log)
    for split in plan["evaluate"]:
        by_point = {
            group.name: [*_read_translations(directory, plan, split, group.name)]
            for group in groups
        }
        names = [name for name, translations in by_point.items() if translations]
        if not names:
            continue
        first = [group.runs[0] for group in groups if group.name in names]
        texts = (
            sources.load_split(run.load_config().data, split, initialize.corpus_directory(run))
            for run in first
        )
        text = next(texts)
        others = (
            name
            for name, other in zip(names[1:], texts, strict=True)
            if (other.src, other.tgt) != (text.src, text.tgt)
        )
        if (name := next(others, None)) is not None:
            log(f"{split}: not compared, as {name} has other text in it than {names[0]}")
            continue
        translations = [by_point[name] for name in names]
        number = names.index(reference.name) if reference.name in names else None
        compared = seed_statistics.compare_groups(translations, text.tgt, number, metrics)
        yield groups_page.EvaluatedSplit(split, text.src, text.tgt, names, translations, compared)


def _read_translations(
    directory: "plans.SweepDirectory", plan: dict[str, Any], split: str, point: str
) -> Iterator[list[str]]:
    """Yield the translations of each finished run of a point."""
    for seed in plan["seeds"]:
        path = directory.path / plans.scores_name(split, point, seed) / plans.TRANSLATIONS
        run = run_groups.run_name(point, seed)
        if path.is_file() and run_groups.read_run_state(directory.path, run) == "done":
            text = files.read_small(path, _MAX_BYTES).decode(errors="replace")
            yield text.removesuffix("\n").split("\n")


def format_splits(results: SweepResults) -> list[str]:
    """Return the lines of a table for each evaluated split."""
    lines: list[str] = []
    for split in results.splits:
        lines += ["", f"{split.name}: {len(split.references):,} sentences"]
        for name, metric in split.comparisons.items():
            lines += ["", *compare.format_group_scores(METRICS[name].label, split.groups, metric)]
    reference = results.groups[results.reference].name
    means = {
        name: [group.mean for group in metric.groups]
        for split in results.splits
        for name, metric in split.comparisons.items()
    }
    return [*lines, "", *compare.group_notes(reference, len(results.groups), means)]


def render_sweep(results: SweepResults) -> str:
    """Return the page about a sweep."""
    script = rendering.plotly_script()  # before long work
    return groups_page.render_groups(groups_page.describe_groups(*results), script)
