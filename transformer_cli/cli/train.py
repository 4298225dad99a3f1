"""``transformer-cli train``."""

import signal
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transformer_cli.cli import options
from transformer_cli.cli.display import line_bar, log, table, warn
from transformer_cli.cli.signals import StopRequest, stop_requests
from transformer_cli.cli.training_display import TrainingDisplay
from transformer_cli.errors import UsageError
from transformer_cli.ranks import Ranks

if TYPE_CHECKING:
    from transformer_cli.config.origins import Origins
    from transformer_cli.config.schema import Config
    from transformer_cli.runs.directory import RunDirectory
    from transformer_cli.training.preparation import Prepared, Texts
    from transformer_cli.training.session import Session

DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Say what it will be and take, and stop; writes no run."),
]


def train(
    config: options.Config,
    run_dir: options.RunDir = None,
    set_: options.Set = None,
    overwrite: options.Overwrite = False,
    dry_run: DryRun = False,
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
    from transformer_cli.config.yaml import load_settings
    from transformer_cli.runs.directory import RunDirectory
    from transformer_cli.runs.lock import refuse_if_locked

    settings, origins = load_settings(config, set_ or [])
    ranks = Ranks.of_environment()
    run = RunDirectory(options.run_directory(config, run_dir))
    if overwrite and ranks.machines > 1:
        # How often it has started a training there, torchrun does not tell.
        raise UsageError(
            "--overwrite: not on several machines, where torchrun may start it twice; remove "
            f"{run.path} yourself, or choose another --run-dir"
        )
    if dry_run:
        run.refuse_other_content()
    elif ranks.leads:
        refuse_if_locked(run)  # before torch is imported: a second training is told at once

    from transformer_cli.cli.training_setup import Setup
    from transformer_cli.model.device import (
        bound_kernel_caches,
        choose_device,
        choose_precision,
        use_threads,
    )
    from transformer_cli.runs.checkpoint import newest_step
    from transformer_cli.text.tokenizer import fingerprint
    from transformer_cli.training.session import Session

    use_threads(threads)
    bound_kernel_caches()
    torch_device = choose_device(device, ranks)
    torch_precision = choose_precision(precision, torch_device)
    with ranks.joined(torch_device) as ranks, ExitStack() as held:
        # Started again by torchrun, it would discard what was trained before that.
        discarding = overwrite and not ranks.restarts
        texts, prepared = (
            _prepare_dry(settings, run, discarding, ranks, held)
            if dry_run
            else _prepare(settings, origins, run, discarding, ranks, held)
        )
        setup = Setup(settings, texts, prepared, run, torch_device, torch_precision, ranks)
        if dry_run:
            setup.trainer.step = 0 if discarding else newest_step(run.checkpoints)
            lines = list(table(setup.summary(always_probe=True)))
            ranks.wait()  # nobody reads any more what goes away now
            if ranks.leads:
                typer.echo("\n".join(lines))
            return
        tokenizer = fingerprint(run.tokenizer)
        session = Session(settings, run, setup.trainer, tokenizer, setup.validate)
        for line in table(setup.summary()):
            log(line)
        with stop_requests() as stop_requested:
            _follow(session, stop_requested)
            if ranks.leads:
                _draw(run, settings.tokenizer.lowercase)
            ranks.wait()  # when the first of them ends, torchrun may end the others
    if session.stopped and not session.finished:
        same = "the same command without --overwrite" if overwrite else "the same command"
        log(f"stopped at step {session.trainer.step}; {same} goes on from there")
        raise typer.Exit(128 + (stop_requested.signal or signal.SIGTERM))
    standing = session.standing
    done = f"{run.path}: trained {session.trainer.step} steps in {standing.seconds:.0f} s"
    if standing.best_step is not None:
        done += f"; best validation BLEU {standing.best_bleu:.2f} at step {standing.best_step}"
    if ranks.leads:
        typer.echo(done)


def _prepare(
    settings: "Config",
    origins: "Origins",
    run: "RunDirectory",
    overwrite: bool,
    ranks: Ranks,
    held: ExitStack,
) -> tuple["Texts", "Prepared"]:
    """Have the leading rank make what is not there yet; the others read what it has made.

    Args:
        settings: the experiment's.
        origins: where they come from.
        run: where to.
        overwrite: whether to start anew.
        ranks: who works on it.
        held: what keeps the run's lock, once the leading rank has it.
    """
    from transformer_cli.data.store import stored_survey
    from transformer_cli.runs.inheritance import refuse_unfit_init
    from transformer_cli.runs.lock import locked
    from transformer_cli.training.preparation import open_prepared, prepare, read_texts

    if not ranks.leads:
        ranks.wait()
        return open_prepared(settings, run, line_bar)
    refuse_unfit_init(settings, run, overwrite)
    texts = read_texts(settings.data, stored_survey(run.encoded))
    held.enter_context(locked(run))
    run.prepare(settings, overwrite, origins)
    prepared = prepare(settings, texts, run, line_bar)
    ranks.wait()
    return texts, prepared


def _prepare_dry(
    settings: "Config", run: "RunDirectory", overwrite: bool, ranks: Ranks, held: ExitStack
) -> tuple["Texts", "Prepared"]:
    """As ``_prepare`` does, in a directory that ``held`` removes, unless all is in the run."""
    from transformer_cli.data.store import stored_survey
    from transformer_cli.runs.directory import RunDirectory
    from transformer_cli.runs.inheritance import refuse_unfit_init
    from transformer_cli.training.preparation import (
        find_prepared,
        open_prepared,
        prepare,
        read_texts,
    )

    if not ranks.leads:
        ranks.wait()  # what they tell each other has to come within minutes
        (told,) = ranks.map(lambda items: [], [0])
        return open_prepared(settings, RunDirectory(Path(told)), line_bar)
    refuse_unfit_init(settings, run, overwrite)
    is_begun = run.config.is_file() and not overwrite
    is_of_use = is_begun and not run.refuse_changes(settings)
    texts = read_texts(settings.data, stored_survey(run.encoded))
    prepared = find_prepared(settings, texts, run, line_bar) if is_of_use else None
    place = run.path
    if prepared is None:
        place = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="transformer-cli-")))
        prepared = prepare(settings, texts, RunDirectory(place), line_bar)
    ranks.wait()
    ranks.map(lambda items: [str(place) for _ in items], [0])
    return texts, prepared


def _follow(session: "Session", stop_requested: StopRequest) -> None:
    """Train, showing a bar where there is a terminal and a line for each record."""
    from transformer_cli.training.session import Record
    from transformer_cli.training.trainer import Progress

    step = session.trainer.step
    for reason in session.found_damaged:
        log(reason)
    if session.finished:
        log(f"nothing left to train: {step} steps are done")
    elif step:
        log(f"going on from step {step}")
    with TrainingDisplay(session.trainer.total_steps, step) as display:
        for event in session.events(stop_requested):
            match event:
                case Progress():
                    display.step(event)
                case Record():
                    display.record(event)


def _draw(run: "RunDirectory", lowercased: bool) -> None:
    """Draw the curves; a training is no worse for lacking them."""
    from transformer_cli.training.curves import draw_curves

    try:
        draw_curves(run.metrics, run.curves, str(run.path), lowercased)
    except Exception as error:
        warn(str(run.curves), f"not drawn: {' '.join(str(error).split()) or type(error).__name__}")
