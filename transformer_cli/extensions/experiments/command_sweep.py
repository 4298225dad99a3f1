"""The command ``transformer-cli sweep``, which trains and compares variations of a config."""

import shlex
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from transformer_cli.base.errors import UsageError
from transformer_cli.base.messages import log
from transformer_cli.base.packages import lazy_imports
from transformer_cli.base.workers import count_cores
from transformer_cli.cli import options
from transformer_cli.cli.declaring import argument, flag, option
from transformer_cli.cli.display import align_columns, say
from transformer_cli.config.choices import METRICS, MOST_THREADS
from transformer_cli.extensions.checks.options import AllowSuspectData

with lazy_imports():
    from transformer_cli.extensions.experiments import (
        command_compare,
        runner as runners,
        seed_statistics,
        sweep as plans,
        sweep_file,
    )
    from transformer_cli.runs import directory as directories

STOPPING_RUNS = "stopping all runs, each with a checkpoint; interrupt again to stop at once"


def sweep(
    file: Annotated[Path, argument("FILE", "YAML file with base, seeds, and grid or points.")],
    sweep_dir: Annotated[
        Path | None, option("DIR", "Directory of the sweep.  [default: sweeps/<file name>]")
    ] = None,
    jobs: Annotated[
        int, option("N", "Number of runs to train at the same time.", min=1, max=1000)
    ] = 1,
    dry_run: Annotated[
        bool, flag("Print the commands of the remaining runs and exit.", "--dry-run")
    ] = False,
    allow_suspect_data: AllowSuspectData = False,
    device: options.Device = "auto",
    precision: options.TrainingPrecision = "auto",
    threads: Annotated[
        int | None,
        option(
            "N", "CPU threads of each run.  [default: all cores, shared]", min=1, max=MOST_THREADS
        ),
    ] = None,
) -> None:
    """Train variations of a config with several seeds each, and compare them.

    Run the same command again to resume. To train on other machines that share the disk, print
    the commands with --dry-run, run them on those machines, and then run sweep again here.

    \b
    Example:
      transformer-cli sweep configs/sweeps/toy.yaml --jobs 2
    """
    directory = plans.SweepDirectory(sweep_dir or Path("sweeps") / file.stem)
    given = ["--device", device, "--precision", precision]
    if threads or not dry_run:
        given += ["--threads", str(threads or max(1, count_cores() // jobs))]
    plan = plans.SweepPlan(
        sweep_file.load_sweep(file),
        directory,
        given,
        ("--allow-suspect-data",) if allow_suspect_data else (),
    )
    directory.check(precision)
    plan.check_trained_alike()
    if dry_run:
        say("\n".join(preview_sweep(plan)))
        return
    with directories.lock_directory(directory.path, runners.PATIENCE) as lock:
        directory.create(precision, **plan.record)
        runner = runners.Runner(directory, plan.jobs(), lock, runners.list_places(device, jobs))
        code = runners.run_jobs(runner, STOPPING_RUNS, lambda: plan.describe_rest(jobs))
        if code is None:
            say("\n".join(format_results(plan, [*runner.failed])))
            compare_splits(plan, device, precision, threads)
    failed = [name for name in runner.failed if not name.startswith("data/")]
    if failed and code is None:
        log(f"{len(failed)} failed: see the logs in {directory.path / 'jobs'}")
    raise typer.Exit(code if code is not None else bool(failed))


def preview_sweep(plan: "plans.SweepPlan") -> Iterator[str]:
    """Yield lines with the number of finished runs and the commands of the other runs."""
    left = [run.job for run in plan.runs if not plan.directory.seems_done(run.job)]
    yield f"{len(plan.runs) - len(left)} of {len(plan.runs)} runs have finished"
    for job in left:
        yield shlex.join(("transformer-cli", *job.command))
    yield f"time and memory of a training: transformer-cli train {plan.sweep.base} --dry-run"


def format_results(plan: "plans.SweepPlan", failed: list[str]) -> list[str]:
    """Return a table's lines: each point of the sweep and its runs' mean best validation score."""
    rows = [["point", "seeds", "mean"]]
    means = []
    for point in plan.sweep.points:
        runs = [run for run in plan.runs if run.point is point]
        done = [run for run in runs if plan.directory.seems_done(run.job)]
        best = [plans.find_best(run.directory, plan.metric) for run in done]
        scores = [score for score in best if score is not None]
        mean, count = "-", str(len(done))
        if scores:
            means.append(statistics.fmean(scores))
            mean = f"{means[-1]:.2f}"
        if len(scores) > 1:
            mean += f" ± {statistics.stdev(scores):.2f}"
        if failures := sum(run.job.name in failed for run in runs):
            count += f", {failures} failed"
        rows.append([point.name, count, mean])
    is_low = seed_statistics.says_nothing(plan.metric, means)
    note = [seed_statistics.TRAIN_LONGER] if is_low else []
    return [f"{METRICS[plan.metric].label} of the best validation", *align_columns(rows), *note]


def compare_splits(
    plan: "plans.SweepPlan",
    device: options.Device,
    precision: options.TrainingPrecision,
    threads: options.Threads,
) -> None:
    """Compare all trained runs on each split under ``evaluate`` in the sweep's file.

    This is done last, so that no decision depends on the test splits.
    """
    if sum(map(len, plan.directory.find_finished().values())) < 2:
        return
    for split in plan.sweep.settings.evaluate:
        say("")
        given = command_compare.CompareOptions(
            [plan.directory.path], [split], device=device, precision=precision, threads=threads
        )
        try:
            command_compare.compare.function(given)
        except UsageError as error:  # the points' texts of this split may differ
            log(f"{split}: not compared: {error}")
