"""``transformer-cli train``."""

import json as json_format
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from transformer_cli.base.errors import ConfigError, RunError, UsageError, duration
from transformer_cli.base.metrics import METRICS
from transformer_cli.base.packages import lazy_imports
from transformer_cli.base.ranks import Ranks
from transformer_cli.cli import options
from transformer_cli.cli.completion import complete_config, complete_run
from transformer_cli.cli.declaring import CommandOptions, argument, flag, option
from transformer_cli.cli.display import align_columns, bar, line_bar, log, pair_bar, say, warn
from transformer_cli.cli.process import exit_code, stop_requests
from transformer_cli.config.choices import DeviceName, PrecisionName

with lazy_imports():
    from transformer_cli.config import differences, schema, yaml
    from transformer_cli.data import sources
    from transformer_cli.evaluation import best_checkpoint, scoring as evaluations
    from transformer_cli.extensions.cluster import options as cluster_options
    from transformer_cli.extensions.exchange import formats
    from transformer_cli.extensions.experiments import growing
    from transformer_cli.extensions.observers import curves
    from transformer_cli.inference import loading
    from transformer_cli.model import device as devices
    from transformer_cli.runs import checkpoint, directory, initialize, metrics_log, trained_model
    from transformer_cli.text import tokenizer
    from transformer_cli.training import (
        forecast,
        precision as precisions,
        preparation,
        session as sessions,
        summary,
        texts,
        trainer as trainers,
    )

if TYPE_CHECKING:
    from tqdm import tqdm

DryRun = Annotated[
    bool, flag("Print a summary and a forecast, then exit without training.", "--dry-run")
]
From = Annotated[
    Path | None,
    option(
        "RUN",
        "Adapt this run to the text of --add, in a new run beside it.",
        "--from",
        autocompletion=complete_run,
    ),
]
Add = Annotated[
    list[Path] | None,
    option("FILE", "With --from: TMX, PO, MO, or TSV of source and target; repeatable.", "--add"),
]
_MAX_LOSS = 0.5
MaxLoss = Annotated[
    float, option("BLEU", "With --from: what the old validation text may lose.", min=0.0)
]
Extend = Annotated[
    bool, flag("Train a complete run further, if the settings now say so.", "--extend")
]
_ABOUT_CLUSTER = (
    "Dask cluster to prepare the data on: tcp://HOST:8786, or a YAML file that names one. The "
    "training itself runs here."
)
STOPPING = "stopping after this step with a checkpoint; once more stops at once"
_REFRESH_SECONDS = 0.5


def train(
    config: Annotated[
        Path | None,
        argument(
            "CONFIG",
            "YAML file of the experiment; none with --from.",
            autocompletion=complete_config,
        ),
    ] = None,
    from_: From = None,
    add: Add = None,
    max_loss: MaxLoss = _MAX_LOSS,
    run_dir: options.RunDir = None,
    set_: options.Set = None,
    overwrite: options.Overwrite = False,
    extend: Extend = False,
    dry_run: DryRun = False,
    json: options.Json = False,
    allow_suspect_data: options.AllowSuspectData = False,
    cluster: Annotated[str | None, option("ADDRESS|FILE", _ABOUT_CLUSTER)] = None,
    device: options.Device = "auto",
    precision: options.TrainingPrecision = "auto",
    threads: options.Threads = None,
) -> None:
    """Train a model, or resume an earlier training.

    Builds the vocabularies where they are missing, validates as it goes, and keeps the best and
    the last checkpoint in the run directory. Ctrl-C stops with a checkpoint.

    With --from, a trained run grows by new text: adapted in minutes, in a run beside it (runs/a+1
    for runs/a), which is taken over only if a held-out part of the new text gains and the old
    validation text loses little.

    \b
    Example:
      transformer-cli train configs/multi30k_de_en.yaml --set training.epochs=12
      transformer-cli train --from runs/multi30k_de_en --add corrections.tmx
    """
    if cluster and dry_run:
        raise UsageError("--cluster: not with --dry-run, which writes only to this machine's disk")
    if extend and overwrite:
        raise UsageError("--extend: not with --overwrite, which starts over; leave one of them out")
    if json and not dry_run:
        raise UsageError("--json: is for --dry-run, which is missing; add it")
    ranks = Ranks.from_env()
    growth = None
    if from_ is not None or add or config is None:
        unfit = {"CONFIG": config, "--overwrite": overwrite, "--extend": extend}
        unfit["--dry-run"] = dry_run
        unfit["torchrun"] = ranks.size > 1
        growth = _plan_growth(from_, add or [], run_dir, [key for key in unfit if unfit[key]])
        config, run_dir = growth.write(pair_bar, line_bar), growth.new.path
    elif max_loss != _MAX_LOSS:
        raise UsageError("--max-loss: is for --from, which is missing; add it")
    run = directory.RunDirectory(options.run_directory(config, run_dir))
    # Restarted by torchrun, it would rename what was trained before the restart.
    begins_anew = overwrite and not ranks.restarts
    settings, origins = yaml.load_settings(config, set_ or [])
    sources.check_has_text(settings.data, config)
    if overwrite and ranks.machines > 1:
        # torchrun does not tell how often it has started a training there.
        raise UsageError(
            "--overwrite: not on several machines, where torchrun may start it twice; remove "
            f"{run.path} yourself, or choose another --run-dir"
        )
    files = yaml.list_base_files(config)
    if dry_run:
        run.check_is_run_or_empty()
    elif ranks.is_main:
        directory.check_unlocked(run)
    if growth is None:
        directory.check_config_files(run.path, files)
    # From here on torch is needed; what is wrong above is told without waiting for it.
    if not (begins_anew or extend):
        _refuse_to_extend(run, settings)
    asked = CommandOptions(extras=(cluster_options.TrainClusterOptions(cluster),))
    executor = options.choose_executor(asked, run.path)
    about = (begins_anew, allow_suspect_data, executor)
    request = texts.TrainRequest(settings, origins, run, *about)
    hint = trained_model.describe_inherited_init(settings, origins, files[1:])
    if ranks.is_main and hint:
        log(hint)
    with _open_training(request, device, precision, threads, dry_run) as training:
        if dry_run:
            text, stopped_by = _preview(training, json), None
        else:
            session, stopped_by = _run(training)
            text = _describe_end(session, training.validator.select)
    if stopped_by is not None:
        same = "the same command without --overwrite" if overwrite else "the same command"
        log(f"stopped at step {session.trainer.step}; {same} resumes from there")
        raise typer.Exit(exit_code(stopped_by))
    if growth is not None:
        log(text)
        _judge_growth(growth, max_loss, loading.ComputeOptions("auto", device, precision, threads))
    elif ranks.is_main:
        say(text)


def _refuse_to_extend(run: "directory.RunDirectory", settings: "schema.Config") -> None:
    """Raise ConfigError if a run is complete, and these settings would train it further."""
    initialize.check_resumable(run, settings)
    if extension := summary.describe_extension(run, settings):
        raise ConfigError(f"{run.path}: is {extension}")


def _plan_growth(
    old: Path | None, added: Sequence[Path], run_dir: Path | None, unfit: Sequence[str]
) -> "growing.Growth":
    """Return the growth that --from and --add ask for."""
    if old is None:
        given = "--add: is for --from RUN, which is missing" if added else "CONFIG: missing"
        raise UsageError(f"{given}; give a configuration, or --from RUN --add FILE")
    if not added:
        raise UsageError("--from: adapts a run to new text; add --add FILE")
    if unfit:
        raise UsageError(f"--from: not with {unfit[0]}; leave one of them out")
    new = run_dir or growing.next_run(old)
    options.check_name(new, "--run-dir")
    return growing.Growth(directory.RunDirectory(old), directory.RunDirectory(new), added)


def _judge_growth(
    growth: "growing.Growth", max_loss: float, compute: "loading.ComputeOptions"
) -> None:
    """Say whether the new run is taken over; raise RunError if it is not."""
    with bar(None, "judging", " sentences") as shown:
        gained, lost = growth.judge(compute, shown.update, log)
    rejected = growth.settle(gained, lost, max_loss)
    about = f"new text {gained}; old text {lost}"
    if rejected is not None:
        raise RunError(
            f"{growth.new.path}: not taken over, and renamed to {rejected.name}: {about} "
            f"(--max-loss {max_loss:g})"
        )
    say(f"{growth.new.path}: taken over: {about}")


class _Training(NamedTuple):
    """A request with what it takes: its data, a trainer, and what validates it."""

    request: "texts.TrainRequest"
    data: "preparation.PreparedData"
    trainer: "trainers.Trainer"
    validator: "evaluations.Validator"
    notes: Sequence[str]  # on how it is scored, to be logged once the training is sure to begin
    previous: "schema.Config | None"  # the settings of the run that is resumed, if it is

    def summarize(self, is_complete: bool, always_probe: bool = False) -> list[str]:
        """Return the lines of the summary, with a forecast."""
        config, run = self.request.config, self.request.run
        validator = self.validator
        about = (validator.num_unscored, run, self.previous, always_probe, is_complete)
        given = (config, self.data, self.trainer, *about, validator.estimate)
        rows = [*summary.summarize_training(*given)]
        if limits := formats.describe_limits(config, self.data.tokenizers):
            rows.insert(-1, ("export", limits))  # the run directory comes last
        return align_columns(rows, left=2)


@contextmanager
def _open_training(
    request: "texts.TrainRequest",
    device: DeviceName,
    precision: PrecisionName,
    threads: int | None,
    is_dry: bool,
) -> Iterator[_Training]:
    """Choose the device, check its memory, connect the ranks, and prepare data and trainer."""
    config, run = request.config, request.run
    devices.use_threads(threads)
    devices.bound_kernel_caches()
    ranks = Ranks.from_env()
    torch_device = options.open_device(device, ranks)
    # Both before any text is read, which may take hours.
    forecast.check_memory(config, forecast.SMALLEST, torch_device, ranks)
    devices.choose_precision(precision, torch_device)
    begun = None if request.overwrite else run
    notes: list[str] = []
    metrics, select = best_checkpoint.metrics_of_training(config, begun, notes.append)
    is_there = ranks.is_main and begun is not None and begun.config.is_file()
    previous = run.load_config() if is_there else None
    callbacks = texts.Callbacks(line_bar, warn, pair_bar, log)
    open_data = preparation.open_data_dry if is_dry else preparation.open_data
    with ranks.init(torch_device) as ranks, open_data(request, ranks, callbacks) as data:
        earlier = metrics_log.read_records(run.metrics) if begun else ()
        # To measure what 'auto' is takes a second, so that is left until the data is ready.
        dtype = precisions.choose_training_precision(precision, torch_device, ranks, earlier, log)
        trainer = preparation.build_trainer(config, data, run, torch_device, dtype, ranks)
        validator = evaluations.build_validator(config, data, trainer, metrics, select)
        yield _Training(request, data, trainer, validator, notes, previous)


def _preview(training: _Training, as_json: bool) -> str:
    """Return the summary and a forecast, or the latter alone as JSON, without training."""
    request, trainer = training.request, training.trainer
    trainer.step = 0 if request.overwrite else checkpoint.newest_step(request.run.checkpoints)
    state = None if request.overwrite else initialize.load_newest_state(request.run)
    is_complete = state is not None and state.is_final(request.config.training)
    if as_json:
        trainer.step = trainer.total_steps if is_complete else trainer.step
        validator = training.validator
        timers = (validator.estimate, validator.measure)
        return json_format.dumps(summary.report_forecast(request.config, trainer, *timers))
    lines = training.summarize(is_complete, always_probe=True)
    for note in training.notes:
        log(note)
    return "\n".join(lines)


def _run(training: _Training) -> "tuple[sessions.Session, int | None]":
    """Train from the last checkpoint to the end, or until the signal that is returned."""
    config, run, trainer = training.request.config, training.request.run, training.trainer
    fingerprint = tokenizer.fingerprint(run.tokenizer)
    session = sessions.Session(config, run, trainer, fingerprint, training.validator)
    for line in (*training.notes, *training.summarize(session.is_finished)):
        log(line)
    with stop_requests(STOPPING) as requested:
        for message in session.damaged_checkpoints:
            log(message)
        if session.is_finished:
            why = session.state.describe_early_end(config.training)
            log(f"nothing left to train: {trainer.step} steps are done{why}")
            if why:
                log(
                    f"to train further, raise training.patience, now {config.training.patience}, "
                    "and add --extend"
                )
            trained = training.previous
            if trained not in (None, config):
                recorded = initialize.record_finished(run, config, trained)
                if recorded != trained:
                    log(f"{run.config}: has the changed settings, for commands that read the run")
                if recorded != config:
                    kept = differences.differences(recorded, config)
                    values = ", ".join(
                        f"{each.key} {differences.as_yaml(each.old)}" for each in kept
                    )
                    log(f"{run.config}: keeps the settings of the finished training: {values}")
        elif trainer.step:
            log(f"resuming from step {trainer.step}")
        # Tokens per second replace steps per second, so that the bar fits 80 columns.
        with bar(trainer.total_steps, "", "step", initial=trainer.step) as shown:
            shown.bar_format = (
                "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
            )
            display = _Display(shown, trainer.micro_batches)
            session.train(
                lambda: requested.signal is not None, display.show_step, display.show_record
            )
        if trainer.ranks.is_main:
            try:
                select = training.validator.select
                curves.draw_curves(run.metrics, run.curves, str(run.path), select)
            except Exception as error:  # a training is no worse for lacking them
                reason = " ".join(str(error).split()) or type(error).__name__
                warn(str(run.curves), f"not drawn: {reason}")
        trainer.ranks.barrier()  # when the first process ends, torchrun may end the others
    is_cut_off = session.stopped and not session.is_finished
    # The signal may have reached another rank only.
    return session, (requested.signal or signal.SIGTERM) if is_cut_off else None


def _describe_end(session: "sessions.Session", select: str) -> str:
    state = session.state
    text = f"{session.run.path}: trained {session.trainer.step} steps in {state.seconds:.0f} s"
    if state.best_step is not None:
        name, score = METRICS[select].label, abs(state.best_rank)
        text += f"; best validation {name} {score:.2f} at step {state.best_step}"
    return text + state.describe_early_end(session.config.training)


class _Display:
    """Shows a training on stderr: a progress bar on a terminal, a line a record in a log file."""

    def __init__(self, shown: "tqdm[Any]", micro_batches: int) -> None:
        self._bar = shown
        self._tgt_tokens = 0
        self._micro_batches = micro_batches
        self._refreshed = time.monotonic()

    def show_step(self, step: "trainers.StepResult") -> None:
        """Advance the bar, and show the loss now and then."""
        if not step.is_finite:
            log(f"step {step.step}: not a finite number in its loss or gradient; left out")
        if step.micro_batches != self._micro_batches:
            self._micro_batches = step.micro_batches
            log(
                f"step {step.step}: out of memory; from here on each batch is split into "
                f"{step.micro_batches} micro-batches, and a step has as many tokens as before"
            )
        self._bar.update()
        self._tgt_tokens += step.tgt_tokens
        elapsed = time.monotonic() - self._refreshed
        if self._bar.disable or elapsed < _REFRESH_SECONDS or not step.is_finite:
            return
        self._bar.set_postfix_str(
            f"loss {step.loss / step.tgt_tokens:.2f}, "
            f"norm {step.gradient_norm:.2f}, "
            f"lr {step.learning_rate:.1e}, {self._tgt_tokens / elapsed:.0f} tok/s",
            refresh=False,
        )
        self._restart_clock()

    def _restart_clock(self) -> None:
        self._tgt_tokens, self._refreshed = 0, time.monotonic()

    def show_record(self, values: "metrics_log.Record") -> None:
        """Write a line for a validation, and in a log file for a training record too."""
        where = f"step {values['step']}/{self._bar.total}, epoch {values['epoch']}"
        if values["kind"] == "validation":
            self._restart_clock()  # its time does not count
            log(
                f"{where}: validation loss {values['loss']:.4f}, "
                f"perplexity {values['perplexity']:.3f}, {_describe_scores(values)}, "
                f"{values['seconds']:.0f} s"
            )
            for sample in () if self._bar.disable else values["samples"]:
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
    """Return a validation's scores, and whether it is the best so far."""
    text = ", ".join(
        f"{metric.short or metric.label} {values[metric.name]:.2f}"
        for metric in METRICS.values()
        if metric.build and metric.name in values
        if metric.is_first or metric.name == values["select"]
    )
    best = " (best by loss)" if values["select"] == "loss" else " (best)"
    return f"{text}{best}" if values["best"] else text
