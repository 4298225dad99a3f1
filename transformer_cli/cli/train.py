"""``transformer-cli train``: train a model, and show its progress."""

import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from transformer_cli.base.errors import UsageError
from transformer_cli.base.messages import bar, duration, log
from transformer_cli.base.packages import lazy_imports
from transformer_cli.base.ranks import find_ranks
from transformer_cli.base.registry import entries
from transformer_cli.cli.declaring import declared_by
from transformer_cli.cli.display import align_columns, say
from transformer_cli.cli.options import TrainExtra, TrainOptions
from transformer_cli.cli.process import exit_code, stop_requests
from transformer_cli.config.choices import METRICS

with lazy_imports():
    from transformer_cli.base import workers
    from transformer_cli.config import yaml
    from transformer_cli.data import kinds
    from transformer_cli.evaluation import best_checkpoint, scoring as evaluations
    from transformer_cli.model import device as devices
    from transformer_cli.runs import directory, initialize, metrics_log
    from transformer_cli.text import tokenizer
    from transformer_cli.training import (
        preparation,
        session as sessions,
        summary,
        trainer as trainers,
    )

if TYPE_CHECKING:
    from tqdm import tqdm

STOPPING = "stopping after this step, with a checkpoint; interrupt again to stop at once"


@declared_by(TrainOptions)
def train(given: TrainOptions) -> None:
    """Train a model, or resume an interrupted run.

    It prepares the text if needed, validates regularly, and keeps the best and the last checkpoint
    in the run directory. Ctrl-C saves a checkpoint and stops; the same command resumes.

    \b
    Example:
      transformer-cli train configs/toy.yaml --set training.epochs=12
    """
    given.check_extras()
    run = _train
    for extra in given.extras:
        if isinstance(extra, TrainExtra):
            run = partial(extra.around, run)
    text = run(given)
    if find_ranks().is_main:
        say(text)


def _train(given: TrainOptions) -> str:
    """Train or, with ``--dry-run``, only summarize the training; return the final message."""
    request = make_request(given)
    with _open_training(request, given) as planned:
        if given.dry_run:
            planned.trainer.step = planned.state.step if planned.state else 0
            return "\n".join(align_columns(summary.summarize_training(planned), left=2))
        session, stopped_by = _run(planned)
    if stopped_by is not None:
        same = "the same command" + " without --overwrite" * given.overwrite
        log(f"stopped at step {session.trainer.step}; {same} resumes from there")
        raise typer.Exit(exit_code(stopped_by))
    return _describe_end(session, planned.validator.select)


def make_request(given: TrainOptions) -> "preparation.TrainRequest":
    """Run all checks that do not need torch; return the config, run and options to train with."""
    if given.config is None:
        raise UsageError("CONFIG: missing; give a config file")
    run = directory.RunDirectory(given.run_dir or Path("runs", given.config.stem))
    ranks = find_ranks()
    config = yaml.load_config(given.config, given.set_ or [])
    kinds.check_has_text(config.data, given.config)
    starts_again = given.overwrite and ranks.may_overwrite(run.path)
    if given.dry_run:
        run.check_is_run_or_empty()
    elif ranks.is_main:
        directory.check_unlocked(run)
    directory.check_config_files(run.path, yaml.list_base_files(given.config))
    if not starts_again:
        initialize.check_resumable(run, config)
    return preparation.TrainRequest(
        config=config,
        run=run,
        overwrite=starts_again,
        extras=given.extras,
        open_executor=workers.find_executor(given.extras, run.path),
        is_dry=given.dry_run,
    )


@contextmanager
def _open_training(
    request: "preparation.TrainRequest", given: TrainOptions
) -> "Iterator[summary.PlannedTraining]":
    """Choose the device, check its memory, connect the processes, and prepare data and trainer."""
    config, run = request.config, request.run
    devices.use_threads(given.threads)
    devices.bound_kernel_caches()
    ranks = find_ranks()
    device = ranks.place(devices.choose_device(given.device))
    # Check this before reading any text, which may take hours.
    observers: list[sessions.Observer] = [e.load()() for e in entries("observer").values()]
    for observer in observers:
        observer.check(config, None, device, ranks)
    begun = None if request.overwrite else run
    earlier = metrics_log.last_session(run.metrics).get("precision") if begun else None
    metrics, select = best_checkpoint.metrics_of_training(config, begun, log)
    is_there = ranks.is_main and begun is not None and begun.config.is_file()
    previous = run.load_config() if is_there else None
    state = initialize.load_newest_state(begun) if begun else None
    with ExitStack() as stack:
        ranks = stack.enter_context(ranks.init(device))
        dtype = devices.choose_training_precision(given.precision, device, ranks, earlier)
        data = stack.enter_context(preparation.open_data(request, ranks))
        for observer in observers:
            observer.check(config, data.vocab_sizes, device, ranks)
        trainer = preparation.build_trainer(config, data, run, device, dtype, ranks)
        validator = evaluations.build_validator(config, data, trainer, metrics, select)
        plan = (request, data, trainer, validator, observers, previous, state)
        planned = summary.PlannedTraining(*plan)
        yield reduce(summary.PlannedTraining.adapted_by, observers, planned)


def _run(planned: "summary.PlannedTraining") -> "tuple[sessions.Session, int | None]":
    """Train until the end or a stop signal; return the session and the signal, if any."""
    config, run, trainer = planned.request.config, planned.request.run, planned.trainer
    fingerprint = tokenizer.fingerprint(run.tokenizer)
    session = sessions.Session(
        config, run, trainer, fingerprint, planned.validator, planned.observers
    )
    if trainer.ranks.is_main:
        initialize.record_settings(run, config, session.is_finished)
    # By now, damaged checkpoints are set aside, so the state may be older.
    planned = replace(planned, state=session.state)
    for line in align_columns(summary.summarize_training(planned), left=2):
        log(line)
    with stop_requests(STOPPING) as requested:
        if session.is_finished:
            why = session.state.describe_early_end(config.training)
            log(f"nothing left to train: {trainer.step} steps are done{why}")
        elif trainer.step:
            log(f"resuming from step {trainer.step}")
        with bar(trainer.total_steps, "", "step", initial=trainer.step) as shown:
            display = _Display(shown, trainer.micro_batches)
            session.train(
                lambda: requested.signal is not None, display.show_step, display.show_record
            )
        trainer.ranks.barrier()  # once the first process ends, the others may be killed
    is_cut_off = session.stopped and not session.is_finished
    # Perhaps only another rank got the signal.
    return session, (requested.signal or signal.SIGTERM) if is_cut_off else None


def _describe_end(session: "sessions.Session", select: str) -> str:
    state = session.state
    text = f"{session.run.path}: trained {session.trainer.step} steps in {state.seconds:.0f} s"
    if state.best_step is not None:
        name, score = METRICS[select].label, abs(state.best_rank)
        text += f"; best validation {name} {score:.2f} at step {state.best_step}"
    return text + state.describe_early_end(session.config.training)


class _Display:
    """The progress of a training on stderr: a bar on a terminal, otherwise a line per record."""

    def __init__(self, shown: "tqdm[Any]", micro_batches: int) -> None:
        self._bar = shown
        self._micro_batches = micro_batches

    def show_step(self, step: "trainers.StepResult") -> None:
        """Advance the bar and show the loss."""
        if not step.is_finite:
            log(f"step {step.step}: skipped, because its loss or gradient is not finite")
        if step.micro_batches != self._micro_batches:
            self._micro_batches = step.micro_batches
            log(
                f"step {step.step}: out of memory; from here on, each batch is split into "
                f"{step.micro_batches} micro-batches, with as many tokens per step as before"
            )
        if step.is_finite and not self._bar.disable:
            self._bar.set_postfix_str(
                f"loss {step.loss / step.tgt_tokens:.2f}, norm {step.gradient_norm:.2f}, "
                f"lr {step.learning_rate:.1e}",
                refresh=False,
            )
        self._bar.update()

    def show_record(self, values: "metrics_log.Record") -> None:
        """Write a line for a validation and, unless stderr is a terminal, for a training record."""
        where = f"step {values['step']}/{self._bar.total}, epoch {values['epoch']}"
        if values["kind"] == "validation":
            log(
                f"{where}: validation loss {values['loss']:.4f}, "
                f"perplexity {values['perplexity']:.3f}, {_describe_scores(values)}, "
                f"{values['seconds']:.0f} s"
            )
            for sample in values["samples"]:
                for label, line in sample.items():
                    log(f"  {label:<11}  {line}")
        elif self._bar.disable:
            norm, left = values["grad_norm"], values["eta_seconds"]
            log(
                f"{where}: loss {values['loss']:.4f}, perplexity {values['perplexity']:.3f}, "
                f"rate {values['learning_rate']:.3e}, "
                f"gradient norm {'not finite' if norm is None else f'{norm:.2f}'}, "
                f"{values['tokens_per_second']:,} tok/s, {values['seconds']:.0f} s"
                + (f", {duration(left)} left" if left else "")
            )


def _describe_scores(values: Mapping[str, Any]) -> str:
    """Return a validation's scores as text, with a note if it is the best so far."""
    text = ", ".join(
        f"{metric.short or metric.label} {values[metric.name]:.2f}"
        for metric in METRICS.values()
        if metric.is_of_text and metric.name in values
        if metric.is_first or metric.name == values["select"]
    )
    best = " (best by loss)" if values["select"] == "loss" else " (best)"
    return f"{text}{best}" if values["best"] else text
