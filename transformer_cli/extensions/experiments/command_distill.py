"""The command ``transformer-cli distill``, which trains a student on teachers' translations."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from transformer_cli.base.messages import log
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import argument, flag, option
from transformer_cli.cli.display import align_columns, print_error, say
from transformer_cli.cli.evaluate import format_search
from transformer_cli.config.choices import METRICS
from transformer_cli.extensions.checks.options import AllowSuspectData

with lazy_imports():
    from transformer_cli.base import files
    from transformer_cli.extensions.checks import seen_pairs
    from transformer_cli.extensions.experiments import (
        distill as plans,
        distill_file,
        runner as runners,
    )
    from transformer_cli.runs import directory as directories

STOPPING = "stopping this stage; run it again to resume; interrupt again to stop at once"

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
    directory = plans.DistillDirectory(dir_ or Path("runs") / "distill" / file.stem)
    threads_given = [] if threads is None else ["--threads", str(threads)]
    plan = plans.DistillPlan(
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
        code = runners.run_jobs(runner, STOPPING)
        if code is None and not runner.failed:
            say("\n".join(format_scores(plan)))
    for event in dict.fromkeys(runner.failed.values()):
        if event.message:
            print_error(f"{event.job.name}: {event.message}; run it again to resume")
        else:  # the command has printed the reason
            log(f"{event.job.name}: failed; correct the error, then run it again to resume")
        code = code or event.code
    raise typer.Exit(code or 0)


def format_scores(plan: "plans.DistillPlan") -> list[str]:
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


def preview_distillation(plan: "plans.DistillPlan") -> Iterator[str]:
    """Yield the lines of a table that shows which jobs (stages) of a distillation are done."""
    states: dict[str, str] = {}
    for job in plan.jobs():
        is_behind = any(states[need] == "to do" for need in job.needs)
        states[job.name] = "done" if not is_behind and plan.directory.seems_done(job) else "to do"
    yield from align_columns([["stage", ""], *states.items()])
    yield ""
    yield f"{[*states.values()].count('to do')} of {len(states)} stages left"
