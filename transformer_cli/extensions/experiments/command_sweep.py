"""``transformer-cli sweep``: its runs and their results."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from transformer_cli.base.messages import log
from transformer_cli.base.metrics import METRICS
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import argument, flag, option
from transformer_cli.cli.display import align_columns, say
from transformer_cli.extensions.cluster.options import Cluster

with lazy_imports():
    from transformer_cli.extensions.cluster import cluster as clusters
    from transformer_cli.extensions.experiments import (
        command_compare as compare,
        results,
        runner,
        seed_statistics,
        sweep as plans,
        sweep_file,
    )

STOPPING_RUNS = "stopping all runs, each with a checkpoint; once more stops at once"

_ABOUT_FILE = "YAML file: base, a configuration; seeds, a number; grid, values of settings."
_ABOUT_DIR = "Directory of the sweep.  [default: sweeps/FILE's name]"
_ABOUT_DRY_RUN = "Print the points, and how many runs are left, then exit."


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
      transformer-cli sweep configs/sweeps/toy.yaml --jobs 2
    """
    loaded = sweep_file.load_sweep(file)
    path = sweep_dir or Path("sweeps") / file.stem
    directory = plans.SweepDirectory(path)
    settings = None if cluster is None else clusters.read_cluster(cluster)
    if settings is not None and jobs > 1 and not dry_run:
        log("--jobs is left out, as with --cluster each worker has a job at a time")

    directory.check()

    if dry_run:
        plan = plans.SweepPlan(loaded, directory, runner.Computing())
        say("\n".join(preview_sweep(plan)))
        return
    with runner.open_workers(path, settings, device, jobs) as workers:
        computing = runner.Computing.choose(
            directory, device, precision, threads or workers.threads, allow_suspect_data
        )
        plan = plans.SweepPlan(loaded, directory, computing, len(workers.places()))
        directory.create(**computing.precisions)
        raise typer.Exit(run_sweep(plan, workers))


def preview_sweep(plan: "plans.SweepPlan") -> Iterator[str]:
    """Yield the lines of a table of the runs that are left."""
    num_runs = plan.sweep.num_points * len(plan.seeds)
    rows = [["point", "runs left"]]
    if plan.sweep.space is None:
        plan.check_trained_alike()
        undone = (run for run in plan.runs() if not plan.directory.seems_done(run.job))
        left = Counter(run.point.name for run in undone)
        rows += [[point, str(runs)] for point, runs in left.items()]
        ended = num_runs - left.total()
    else:  # its points are drawn later
        ended = plan.directory.count_ended()
    yield f"{ended} of {num_runs} runs have ended"
    if len(rows) > 1:
        yield from ["", *align_columns(rows)]
    yield f"what a training takes: transformer-cli train {plan.sweep.base} --dry-run"


def run_sweep(plan: "plans.SweepPlan", workers: "runner.Workers") -> int:
    """Train and score what is left, and say the results; return the exit code."""
    directory = plan.directory
    plan.check_trained_alike()
    plan.record()
    stop, _ = runner.run_jobs(plan, workers, STOPPING_RUNS)
    if stop is not None:
        return stop
    plan.record()
    status = plan.read_status()
    rows = [[group.name, group.count_runs(), format_mean(group)] for group in status]
    title = f"{METRICS[plan.metric].label} of the best validation"
    note = [seed_statistics.TRAIN_LONGER] if results.are_all_low(status, plan.metric) else []
    say("\n".join([title, *align_columns([["point", "seeds", "mean"], *rows]), *note]))
    if any(group.finished for group in status):
        reached = results.read_results(directory.path, log)
        if reached.splits:
            say("\n".join(format_splits(reached)))
    if plan.search is not None and (unfit := plan.search.unfit):
        number, why = unfit[-1].number + 1, unfit[-1].why
        log(f"trials whose settings do not go together: {len(unfit)}; of trial {number}: {why}")
    failed_runs = [job for job in directory.failed if not job.startswith("data/")]
    if failed_runs:
        log(f"{len(failed_runs)} failed: see the logs in {directory.path / 'jobs'}")
    return 1 if failed_runs else 0


def format_mean(group: "results.GroupResult") -> str:
    """Return the mean score, with the sample standard deviation of two and more."""
    if group.mean is None:
        return "-"
    deviation = "" if group.deviation is None else f" ± {group.deviation:.2f}"
    return f"{group.mean:.2f}{deviation}"


# --- its results ----------------------------------------------------------------------------------


def format_splits(reached: "results.SweepResults") -> list[str]:
    """Return the lines of a table for each evaluated split."""
    lines: list[str] = []
    for split in reached.splits:
        lines += ["", f"{split.name}: {split.sentences:,} sentences"]
        for name, metric in split.comparisons.items():
            lines += ["", *compare.format_group_scores(METRICS[name].label, split.groups, metric)]
    reference = reached.groups[reached.reference].name
    means = {
        name: [group.mean for group in metric.groups]
        for split in reached.splits
        for name, metric in split.comparisons.items()
    }
    return [*lines, "", *compare.group_notes(reference, len(reached.groups), means)]
