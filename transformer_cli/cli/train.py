"""``transformer-cli train``."""

import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from transformer_cli.cli import options
from transformer_cli.cli.display import line_bar, log, table, warn
from transformer_cli.cli.signals import StopRequest, stop_requests
from transformer_cli.cli.training_display import TrainingDisplay
from transformer_cli.errors import UsageError
from transformer_cli.ranks import Ranks

if TYPE_CHECKING:
    from transformer_cli.cli.training_setup import Setup
    from transformer_cli.runs.directory import RunDirectory
    from transformer_cli.training.session import Session

DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Say what it will be and take, and stop; writes no run."),
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
    precision: options.Precision = "auto",
    threads: options.Threads = None,
    version: options.Version = False,
) -> None:
    """Train a model, or go on where an earlier training stopped.

    Builds the vocabularies where they are missing, validates as it goes, and keeps the best and
    the last checkpoint in the run directory. Ctrl-C stops with a checkpoint.

    \b
    Example:
      transformer-cli train configs/multi30k_de_en.yaml --set training.epochs=12
    """
    from transformer_cli.config.base_files import list_base_files
    from transformer_cli.config.yaml import load_settings
    from transformer_cli.runs.contents import check_config_files
    from transformer_cli.runs.directory import RunDirectory
    from transformer_cli.runs.lock import check_unlocked
    from transformer_cli.runs.replacing import is_replacing

    ranks = Ranks.from_env()
    run = RunDirectory(options.run_directory(config, run_dir))
    # Started again by torchrun, it would discard what was trained before that.
    discarding = overwrite and (not ranks.restarts or is_replacing(run.path))
    if ranks.is_main and not ranks.restarts:
        options.put_back(run.path, config.parent)
    settings, origins = load_settings(config, set_ or [])
    if overwrite and ranks.machines > 1:
        # How often it has started a training there, torchrun does not tell.
        raise UsageError(
            "--overwrite: not on several machines, where torchrun may start it twice; remove "
            f"{run.path} yourself, or choose another --run-dir"
        )
    if dry_run:
        run.check_is_run_or_empty()
    elif ranks.is_main:
        check_unlocked(run)  # before torch is imported: a second training is told at once
    check_config_files(run.path, list_base_files(config))
    if discarding and ranks.is_main:
        run.check_no_foreign_files()

    from transformer_cli.cli.training_setup import Setup, prepare, prepare_dry
    from transformer_cli.model.device import (
        bound_kernel_caches,
        choose_device,
        choose_precision,
        use_threads,
    )
    from transformer_cli.runs.checkpoint import newest_step
    from transformer_cli.text.tokenizer import fingerprint
    from transformer_cli.training.memory import SMALLEST, check_memory
    from transformer_cli.training.session import Session

    use_threads(threads)
    bound_kernel_caches()
    torch_device = choose_device(device, ranks)
    torch_precision = choose_precision(precision, torch_device)
    check_memory(settings, SMALLEST, torch_device, ranks)  # at once, before any text is read
    with ranks.init(torch_device) as ranks, ExitStack() as held:
        goes_on = ranks.is_main and not discarding and run.config.is_file()
        before = run.load_config() if goes_on else None
        allow = allow_suspect_data
        if dry_run:
            texts, prepared = prepare_dry(settings, run, discarding, allow, ranks, held, line_bar)
        else:
            texts, prepared = prepare(
                settings, origins, run, discarding, allow, ranks, held, line_bar
            )
        setup = Setup(settings, texts, prepared, run, torch_device, torch_precision, ranks, before)
        if dry_run:
            _tell(setup, 0 if discarding else newest_step(run.checkpoints))
            return
        tokenizer = fingerprint(run.tokenizer)
        session = Session(settings, run, setup.trainer, tokenizer, setup.validate)
        for line in table(setup.summary()):
            log(line)
        with stop_requests() as should_stop:
            _follow(session, should_stop, before not in (None, settings))
            if ranks.is_main:
                _tell_of_previous(run)
                _draw(run, settings.tokenizer.lowercase)
            ranks.barrier()  # when the first of them ends, torchrun may end the others
    if session.stopped and not session.finished:
        same = "the same command without --overwrite" if overwrite else "the same command"
        log(f"stopped at step {session.trainer.step}; {same} goes on from there")
        raise typer.Exit(128 + (should_stop.signal or signal.SIGTERM))
    if ranks.is_main:
        typer.echo(_outcome(session, run))


def _tell(setup: "Setup", step: int) -> None:
    """Print what a training would be, and take, from a step on."""
    setup.trainer.step = step
    lines = list(table(setup.summary(always_probe=True)))
    setup.ranks.barrier()  # nobody reads any more what goes away now
    if setup.ranks.is_main:
        typer.echo("\n".join(lines))


def _outcome(session: "Session", run: "RunDirectory") -> str:
    state = session.train_state
    done = f"{run.path}: trained {session.trainer.step} steps in {state.seconds:.0f} s"
    if state.best_step is not None:
        done += f"; best validation BLEU {state.best_bleu:.2f} at step {state.best_step}"
    return done


def _follow(session: "Session", should_stop: StopRequest, changed: bool) -> None:
    """Train, showing a bar where there is a terminal and a line for each record.

    Args:
        session: ready to begin or to go on.
        should_stop: asked at each step.
        changed: whether the run's settings are not as they were.
    """
    from transformer_cli.training.session import Record
    from transformer_cli.training.trainer import StepResult

    step = session.trainer.step
    for reason in session.found_damaged:
        log(reason)
    if session.finished:
        log(f"nothing left to train: {step} steps are done")
        if changed:
            log(f"{session.run.config}: has the changed settings, for whatever reads the run")
    elif step:
        log(f"going on from step {step}")
    with TrainingDisplay(session.trainer.total_steps, step) as display:
        for event in session.events(should_stop):
            match event:
                case StepResult():
                    display.step(event)
                case Record():
                    display.record(event)


def _tell_of_previous(run: "RunDirectory") -> None:
    from transformer_cli.runs.contents import PREVIOUS

    previous = run.path / PREVIOUS
    if previous.is_dir():
        warn(str(previous), "not deleted, as files in it are not transformer-cli's; do it yourself")


def _draw(run: "RunDirectory", lowercased: bool) -> None:
    """Draw the curves; a training is no worse for lacking them."""
    from transformer_cli.training.curves import draw_curves

    try:
        draw_curves(run.metrics, run.curves, str(run.path), lowercased)
    except Exception as error:
        warn(str(run.curves), f"not drawn: {' '.join(str(error).split()) or type(error).__name__}")
