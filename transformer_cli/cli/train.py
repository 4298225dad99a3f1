"""``transformer-cli train``."""

import signal
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

import typer

from transformer_cli.cli import options
from transformer_cli.cli.display import line_bar, log
from transformer_cli.cli.signals import StopRequest, stop_requests
from transformer_cli.cli.training_display import TrainingDisplay
from transformer_cli.errors import UsageError
from transformer_cli.ranks import Ranks

if TYPE_CHECKING:
    import torch

    from transformer_cli.config.origins import Origins
    from transformer_cli.config.schema import Config
    from transformer_cli.runs.directory import RunDirectory
    from transformer_cli.training.preparation import Prepared, Texts
    from transformer_cli.training.session import Session


def train(
    config: options.Config,
    run_dir: options.RunDir = None,
    set_: options.Set = None,
    overwrite: options.Overwrite = False,
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
    if ranks.leads:
        refuse_if_locked(run)  # before torch is imported: a second training is told at once

    from transformer_cli.model.device import (
        bound_kernel_caches,
        choose_device,
        choose_precision,
        use_threads,
    )

    use_threads(threads)
    bound_kernel_caches()
    torch_device = choose_device(device, ranks)
    torch_precision = choose_precision(precision, torch_device)
    with ranks.joined(torch_device) as ranks, ExitStack() as held:
        # Started again by torchrun, it would discard what was trained before that.
        discarding = overwrite and not ranks.restarts
        texts, prepared = _prepare(settings, origins, run, discarding, ranks, held)
        session = _open_session(
            settings, texts, prepared, run, torch_device, torch_precision, ranks
        )
        with stop_requests() as stop_requested:
            _follow(session, stop_requested)
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


def _open_session(
    settings: "Config",
    texts: "Texts",
    prepared: "Prepared",
    run: "RunDirectory",
    device: "torch.device",
    precision: "torch.dtype",
    ranks: Ranks,
) -> "Session":
    """Everything made ready, and said in two lines."""
    from transformer_cli.inference.evaluation import GivenUpError, evaluate, measurable
    from transformer_cli.inference.translator import Translator
    from transformer_cli.model.transformer import build_model, count_parameters
    from transformer_cli.model.weights import load_weights
    from transformer_cli.runs.checkpoint import list_checkpoints
    from transformer_cli.runs.directory import RunDirectory
    from transformer_cli.runs.inheritance import inherited_weights
    from transformer_cli.text.tokenizer import fingerprint
    from transformer_cli.text.vocabulary import PAD_ID
    from transformer_cli.training.preparation import subword_sampling, text_to_train_on
    from transformer_cli.training.session import Session, Validation
    from transformer_cli.training.trainer import Trainer

    text = text_to_train_on(settings, prepared.train)
    tokenizers = prepared.tokenizers
    model = build_model(
        settings.model, tokenizers.src.size, tokenizers.tgt.size, PAD_ID, settings.seed
    ).to(device)
    if settings.init is not None and not list_checkpoints(run.checkpoints):
        load_weights(model, inherited_weights(RunDirectory(settings.init)))
    trainer = Trainer(
        model, text, settings, precision, subword_sampling(settings, tokenizers), ranks
    )
    translator = Translator(
        trainer.kept, tokenizers, settings, settings.decoding, precision
    ).searching(beam_size=1)
    unmeasured = len(prepared.val) - len(measurable(translator, prepared.val))
    translator.refuse_too_long(prepared.val.src.lengths, "validation source sentence")
    translator.refuse_too_long(prepared.val.tgt.lengths, "validation target sentence")

    def validate(give_up: Callable[[], bool]) -> Validation | None:
        trainer.kept.eval()
        try:
            evaluation = evaluate(translator, texts.val, ranks=ranks, give_up=give_up)
        except GivenUpError:
            return None
        return Validation(evaluation.loss, evaluation.scores.bleu, evaluation.scores.bleu_lc)

    log(
        f"{len(text):,} pairs to train on (left out: {texts.blank_in_train} with a blank side, "
        f"{len(prepared.train) - len(text)} over {settings.training.max_length} tokens), "
        f"{len(prepared.val):,} to validate on (left out: {texts.blank_in_val} with a blank side)"
        + (f"; {unmeasured} of them too long to be in its loss" if unmeasured else "")
    )
    log(
        f"{count_parameters(model):,} parameters, vocabularies {tokenizers.src.size:,} and "
        f"{tokenizers.tgt.size:,}, on {device} in {str(precision).removeprefix('torch.')}; "
        f"{trainer.total_steps:,} steps, {trainer.steps_per_epoch:,} an epoch, into {run.path}"
        + (f"; {ranks.size} processes" if ranks.size > 1 else "")
    )
    return Session(settings, run, trainer, fingerprint(run.tokenizer), validate)


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
