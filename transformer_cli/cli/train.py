"""``transformer-cli train``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transformer_cli.cli import options
from transformer_cli.cli.display import log, say
from transformer_cli.cli.signals import exit_code
from transformer_cli.errors import UsageError
from transformer_cli.ranks import Ranks

if TYPE_CHECKING:
    from transformer_cli.runs.directory import RunDirectory

DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Print a summary and a forecast, then exit without training."),
]

AllowSuspectData = Annotated[
    bool,
    typer.Option(
        "--allow-suspect-data",
        help="Train even where files can only be named by mistake: test text that is the training "
        "text, one file for source and target, or languages the wrong way round.",
    ),
]


def train(
    config: options.Config,
    run_dir: options.RunDir = None,
    set_: options.Set = None,
    overwrite: options.Overwrite = False,
    dry_run: DryRun = False,
    allow_suspect_data: AllowSuspectData = False,
    device: options.Device = "auto",
    precision: options.TrainingPrecision = "auto",
    threads: options.Threads = None,
    version: options.Version = False,
) -> None:
    """Train a model, or resume an earlier training.

    Builds the vocabularies where they are missing, validates as it goes, and keeps the best and
    the last checkpoint in the run directory. Ctrl-C stops with a checkpoint.

    \b
    Example:
      transformer-cli train configs/multi30k_de_en.yaml --set training.epochs=12
    """
    from transformer_cli.config.yaml import list_base_files, load_settings
    from transformer_cli.data.sources import check_has_text
    from transformer_cli.runs.directory import RunDirectory
    from transformer_cli.runs.overwrite import is_overwriting

    ranks = Ranks.from_env()
    run = RunDirectory(options.run_directory(config, run_dir))
    # Restarted by torchrun, it would discard what was trained before the restart.
    discards = overwrite and (not ranks.restarts or is_overwriting(run.path))
    if ranks.is_main and not ranks.restarts and not dry_run:
        options.restore_previous(run.path, config.parent)
    settings, origins = load_settings(config, set_ or [])
    check_has_text(settings.data, config)
    if overwrite and ranks.machines > 1:
        # torchrun does not tell how often it has started a training there.
        raise UsageError(
            "--overwrite: not on several machines, where torchrun may start it twice; remove "
            f"{run.path} yourself, or choose another --run-dir"
        )
    files = list_base_files(config)
    _check_run(run, files, discards, dry_run, ranks)

    from transformer_cli.cli.training_job import open_job, preview_training, run_training
    from transformer_cli.runs.initial_weights import describe_inherited_init
    from transformer_cli.training.setup import TrainRequest

    request = TrainRequest(settings, origins, run, discards, allow_suspect_data)
    if ranks.is_main and (hint := describe_inherited_init(settings, origins, files[1:])):
        log(hint)
    with open_job(request, device, precision, threads) as job:
        outcome = preview_training(job) if dry_run else run_training(job)
    if outcome.signal is not None:
        same = "the same command without --overwrite" if overwrite else "the same command"
        log(f"stopped at step {outcome.step}; {same} resumes from there")
        raise typer.Exit(exit_code(outcome.signal))
    if ranks.is_main:
        say(outcome.text)


def _check_run(
    run: "RunDirectory", files: Sequence[Path], overwrite: bool, dry_run: bool, ranks: Ranks
) -> None:
    """Check the run directory before torch is imported, so that errors are reported at once."""
    from transformer_cli.runs.contents import check_config_files
    from transformer_cli.runs.lock import check_unlocked

    if dry_run:
        run.check_is_run_or_empty()
    elif ranks.is_main:
        check_unlocked(run)
    check_config_files(run.path, files)
    if overwrite and ranks.is_main:
        run.check_no_foreign_files()
