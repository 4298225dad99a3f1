"""The commands ``sweep`` and ``distill``, which run a list of jobs.

A sweep trains and compares variations of a config; a distillation trains a student on teachers'
translations.
"""

import json
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
from transformer_cli.cli.display import align_columns, print_error, say
from transformer_cli.cli.evaluate import format_search
from transformer_cli.config.choices import METRICS, MOST_THREADS
from transformer_cli.extensions.checks.options import AllowSuspectData

with lazy_imports():
    from transformer_cli.base import files
    from transformer_cli.extensions.checks import seen_pairs
    from transformer_cli.extensions.experiments import (
        command_compare,
        distill as distills,
        distill_file,
        runner as runners,
        seed_statistics,
        sweep as sweeps,
        sweep_file,
    )
    from transformer_cli.runs import directory as directories

STOPPING_STAGE = "stopping this stage; run it again to resume; interrupt again to stop at once"
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
    directory = sweeps.SweepDirectory(sweep_dir or Path("sweeps") / file.stem)
    given = ["--device", device, "--precision", precision]
    if threads or not dry_run:
        given += ["--threads", str(threads or max(1, count_cores() // jobs))]
    plan = sweeps.SweepPlan(
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


def preview_sweep(plan: "sweeps.SweepPlan") -> Iterator[str]:
    """Yield lines with the number of finished runs and the commands of the other runs."""
    left = [run.job for run in plan.runs if not plan.directory.seems_done(run.job)]
    yield f"{len(plan.runs) - len(left)} of {len(plan.runs)} runs have finished"
    for job in left:
        yield shlex.join(("transformer-cli", *job.command))
    yield f"time and memory of a training: transformer-cli train {plan.sweep.base} --dry-run"


def format_results(plan: "sweeps.SweepPlan", failed: list[str]) -> list[str]:
    """Return a table's lines: each point of the sweep and its runs' mean best validation score."""
    rows = [["point", "seeds", "mean"]]
    means = []
    for point in plan.sweep.points:
        runs = [run for run in plan.runs if run.point is point]
        done = [run for run in runs if plan.directory.seems_done(run.job)]
        best = [sweeps.find_best(run.directory, plan.metric) for run in done]
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
    plan: "sweeps.SweepPlan",
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


_ABOUT_FILE = "YAML file that names a student config, and runs or configs as teachers."
_ABOUT_DIR = "Output directory.  [default: runs/distill/<file name>]"
_ABOUT_DRY_RUN = "Print the stages and their state, and exit."


def distill(
    file: Annotated[Path, argument("FILE", _ABOUT_FILE)],
    dir_: Annotated[Path | None, option("DIR", _ABOUT_DIR, "--dir")] = None,
    dry_run: Annotated[bool, flag(_ABOUT_DRY_RUN, "--dry-run")] = False,
    allow_suspect_data: AllowSuspectData = False,
    device: options.Device = "auto",
    precision: options.TrainingPrecision = "auto",
    threads: options.Threads = None,
) -> None:
    """Train a student model on its teachers' translations.

    It trains the teachers if needed, uses them to translate the student's training text and
    monolingual text, and trains and scores the student. Run the same command again to resume. A
    stage runs again if its inputs have changed.

    \b
    Example:
      transformer-cli distill configs/distill/multi30k_de_en_student.yaml
    """
    distillation = distill_file.load_distillation(file)
    directory = distills.DistillDirectory(dir_ or Path("runs") / "distill" / file.stem)
    threads_given = [] if threads is None else ["--threads", str(threads)]
    plan = distills.DistillPlan(
        distillation,
        directory,
        ("--device", device, "--precision", precision, *threads_given),
        ("--allow-suspect-data",) if allow_suspect_data else (),
    )
    directory.check(precision)
    if dry_run:
        say("\n".join(preview_distillation(plan)))
        return
    with directories.lock_directory(directory.path, runners.PATIENCE) as lock:
        teachers = sorted({each.run.path.as_posix() for each in distillation.teachers})
        directory.create(precision, teachers=teachers)
        runner = runners.Runner(directory, list(plan.jobs()), lock, shows_output=True)
        code = runners.run_jobs(runner, STOPPING_STAGE)
        if code is None and not runner.failed:
            say("\n".join(format_scores(plan)))
    for event in dict.fromkeys(runner.failed.values()):
        if event.message:
            print_error(f"{event.job.name}: {event.message}; run it again to resume")
        else:  # the command has printed the reason
            log(f"{event.job.name}: failed; correct the error, then run it again to resume")
        code = code or event.code
    raise typer.Exit(code or 0)


def format_scores(plan: "distills.DistillPlan") -> list[str]:
    """Return the lines of a table with all models' scores on the validation text."""
    # ``evaluate --json`` wrote these files; their checksums match the jobs' records.
    texts = {name: files.read_small(plan.directory.scores(name)) for name in plan.models()}
    found = {name: json.loads(text) for name, text in texts.items()}
    # If the script has no case, no model has lowercased BLEU.
    metrics = [key for key in METRICS if any(key in model["scores"] for model in found.values())]
    rows = [["model", "search", *(METRICS[key].label for key in metrics)]]
    for name, runs in plan.models().items():
        scores = found[name]["scores"]
        model = "ensemble" if len(runs) > 1 else runs[0].path.as_posix()
        shown = (seen_pairs.format_score(scores[key]) if key in scores else "-" for key in metrics)
        rows.append([model, format_search(found[name]["beam_size"]), *shown])
    return [f"val: {found['student']['sentences']:,} sentences", "", *align_columns(rows)]


def preview_distillation(plan: "distills.DistillPlan") -> Iterator[str]:
    """Yield the lines of a table that shows which jobs (stages) of a distillation are done."""
    states: dict[str, str] = {}
    for job in plan.jobs():
        is_behind = any(states[need] == "to do" for need in job.needs)
        states[job.name] = "done" if not is_behind and plan.directory.seems_done(job) else "to do"
    yield from align_columns([["stage", ""], *states.items()])
    yield ""
    yield f"{[*states.values()].count('to do')} of {len(states)} stages left"
