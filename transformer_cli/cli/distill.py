"""``transformer-cli distill``."""

from pathlib import Path
from typing import Annotated

import typer

from transformer_cli.cli import options
from transformer_cli.cli.display import say
from transformer_cli.cli.train import AllowSuspectData

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="YAML file: student, a configuration; teachers, runs or configurations.",
        show_default=False,
    ),
]
Dir = Annotated[
    Path | None,
    typer.Option("--dir", metavar="DIR", help="Where to.  [default: runs/distill/FILE's name]"),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Print the stages, with time and disk of each, then exit."),
]


def distill(
    file: File,
    dir_: Dir = None,
    dry_run: DryRun = False,
    allow_suspect_data: AllowSuspectData = False,
    device: options.Device = "auto",
    precision: options.TrainingPrecision = "auto",
    threads: options.Threads = None,
    version: options.Version = False,
) -> None:
    """Train a student on what its teachers translate.

    Trains the teachers that are not trained yet, has them translate the student's training text and
    monolingual text, and trains and scores the student. The same command goes on where an earlier
    one was stopped or killed, and does again what depends on something that has changed.

    \b
    Example:
      transformer-cli distill configs/distill/multi30k_de_en_student.yaml
    """
    from transformer_cli.jobs.distill_file import load_distillation

    distillation = load_distillation(file)
    path = dir_ or Path("runs") / "distill" / file.stem
    options.check_name(path, "--dir")

    from transformer_cli.cli.experiments import (
        DistillRequest,
        preview_distillation,
        run_distillation,
    )
    from transformer_cli.jobs.distill import DistillDirectory

    directory = DistillDirectory(path)
    request = DistillRequest(
        distillation, directory, device, precision, threads, allow_suspect_data
    )
    if dry_run:
        say("\n".join(preview_distillation(request)))
        return
    raise typer.Exit(run_distillation(request, say))
