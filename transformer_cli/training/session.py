"""A training session: the steps, records, validations and checkpoints of one run."""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from torch import device

from transformer_cli.base.errors import CheckpointError, TrainingError, is_out_of_memory
from transformer_cli.base.messages import warn
from transformer_cli.base.ranks import Ranks
from transformer_cli.base.writing import remove_directory, sync
from transformer_cli.config.choices import METRICS
from transformer_cli.config.schema import Config, TrainingConfig
from transformer_cli.model.transformer import load_weights, weights_of
from transformer_cli.runs import metrics_log
from transformer_cli.runs.checkpoint import (
    Checkpoint,
    TrainingState,
    checkpoint_path,
    open_newest_intact,
    prune_checkpoints,
    replace_state,
    save_checkpoint,
)
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.training.trainer import StepResult, Trainer

if TYPE_CHECKING:
    from transformer_cli.training.summary import PlannedTraining, Row

LOG_EVERY = 50  # optimizer steps between two training records


class Validation(NamedTuple):
    """The loss, scores and sample translations of the model on the validation split."""

    loss: float  # mean negative log-likelihood of a target token
    scores: Mapping[str, float]  # scores of greedy translations, by the name of the metric
    tokenize: str = "13a"  # sacreBLEU's name for BLEU's tokenizer
    select: str = "bleu"  # the metric used to choose the best checkpoint
    samples: Sequence[Mapping[str, str]] = ()  # translations of the same pairs each time

    @property
    def rank(self) -> float:
        """A number to compare checkpoints by; the best checkpoint has the highest."""
        return METRICS[self.select].rank({**self.scores, "loss": self.loss}[self.select])


ShouldStop = Callable[[], bool]


class ValidationFunction(Protocol):
    """A function that evaluates ``Trainer.eval_model`` on the validation split."""

    @property
    def num_unscored(self) -> int:
        """Number of pairs that are too long for the validation loss."""

    @property
    def select(self) -> str:
        """The metric used to choose the best checkpoint."""

    def __call__(self, should_stop: ShouldStop) -> Validation | None:
        """Return the metrics, or None if ``should_stop`` returned true during the evaluation."""


class Observer:
    """An object that is called during training; extensions add subclasses as ``observer`` entries.

    Once a session has begun, only the main process calls it. If it then raises an error, the
    program prints a warning and stops calling it, but training goes on.
    """

    writes = ""
    """The file or directory that it writes in the run directory; warnings name this path."""

    def check(
        self, config: Config, vocab_sizes: tuple[int, int] | None, device: device, ranks: Ranks
    ) -> None:
        """Raise a ``ConfigError`` if ``config`` cannot be trained here; every rank calls this.

        ``vocab_sizes`` is None before any text is read.
        """

    def adapt(self, planned: "PlannedTraining") -> TrainingConfig:
        """Return the settings, perhaps with another ``max_steps``; the same on all ranks."""
        return planned.request.config.training

    def rows(self, planned: "PlannedTraining") -> "Iterable[Row]":
        """Return rows for the summary before training."""
        return ()

    def on_begin(self, run: RunDirectory, step: int, start_time: float) -> None:
        """Handle the start of a session, in which ``step`` steps of the run are already done.

        ``start_time`` is the current time minus the training time so far, in seconds since 1970.
        """

    def on_record(self, record: metrics_log.Record) -> None:
        """Handle a record that has just been written to metrics.jsonl."""

    def on_end(self) -> None:
        """Handle the end of a session, after its last checkpoint."""


class Session:
    """The training of one run, from its newest intact checkpoint to the end.

    All ranks run the same session. Only the main process writes files and has ``observers``.
    """

    def __init__(
        self,
        config: Config,
        run: RunDirectory,
        trainer: Trainer,
        tokenizer_fingerprint: str,
        validate: Callable[[ShouldStop], Validation | None],
        observers: Iterable[Observer] = (),
    ) -> None:
        self.config = config
        self.run = run
        self.trainer = trainer
        self.validate = validate
        self._observers = list(observers) if trainer.ranks.is_main else []
        self.state = TrainingState(step=0)
        self.stopped = False  # whether the session ended because a rank was asked to stop
        self._tokenizer = tokenizer_fingerprint
        self._ranks = trainer.ranks
        self._resume()
        if self._ranks.is_main:
            # The log may already have the record of an interrupted validation.
            metrics_log.begin_log(run.metrics, trainer.step, not self.state.unvalidated)

    @property
    def is_finished(self) -> bool:
        """Whether all steps and validations are done."""
        return self.state.is_final(self.config.training)

    def train(
        self,
        should_stop: ShouldStop,
        show_step: Callable[[StepResult], object],
        show_record: Callable[[metrics_log.Record], object],
    ) -> None:
        """Train; show each step, and each record once it is in metrics.jsonl.

        ``should_stop`` is called at each step and during validations; Ctrl-C makes it return true.
        If it returns true on any rank, the session ends after the step, with a checkpoint. There is
        a checkpoint before each validation, so the next session can repeat an interrupted one.
        """
        self._show_record = show_record
        # The clock starts here, since computing the summary is not training time.
        self._began = self._measured_since = time.monotonic()
        self._first_step, self._seconds_before = self.trainer.step, self.state.seconds
        self._tokens_before = self.trainer.window[-1]
        self._notify("on_begin", self.run, self.trainer.step, time.time() - self.state.seconds)
        if not self.is_finished:
            self._train(should_stop, show_step)
        self._notify("on_end")

    def _notify(self, event: str, *values: object) -> None:
        for observer in [*self._observers]:
            try:
                getattr(observer, event)(*values)
            except Exception as error:  # a library may raise anything
                self._observers.remove(observer)
                reason = " ".join(str(error).split()) or type(error).__name__
                warn(str(self.run.path / observer.writes), f"not written: {reason}")

    def _train(self, should_stop: ShouldStop, show_step: Callable[[StepResult], object]) -> None:
        computing = (self.trainer.device, self.trainer.precision, self._ranks.size)
        self._record(metrics_log.SESSION_KIND, **metrics_log.describe_environment(*computing))
        if self.state.unvalidated:
            self._validate(should_stop)
            self._measured_since = time.monotonic()
            if self.stopped or self.is_finished:
                return
        for result in self.trainer.steps(should_stop):
            show_step(result)
            if not self._finish_step(result, should_stop):
                return

    def _finish_step(self, result: StepResult, should_stop: ShouldStop) -> bool:
        """Record, save and validate, each if it is due; return whether to go on training."""
        is_last = result.step == self.trainer.total_steps
        validate_every = self.config.training.validate_every
        recording = is_last or self._is_due(LOG_EVERY)
        validating = is_last or (
            result.ends_epoch if validate_every is None else self._is_due(validate_every)
        )
        saving = validating or result.stop or self._is_due(self.config.training.save_every)
        if recording or saving:
            # The main process keeps the sums of all ranks, and the others start from zero.
            sums = self._ranks.sum(self.trainer.window)
            self.trainer.window = sums if self._ranks.is_main else [0.0] * len(sums)
        if recording:
            self._record_training(result)
        self.state.step, self.state.epoch = result.step, result.epoch
        self.state.unvalidated, self.state.rank = validating, None
        began = time.monotonic()
        if saving:
            self._save()
        if validating:
            self._validate(should_stop)
        self._measured_since += time.monotonic() - began
        self.stopped = result.stop or self.state.unvalidated
        if self.stopped:
            # The end of one process may end all others, and one of them may still be saving.
            self._ranks.barrier()
        return not self.stopped and not (validating and self.is_finished)

    def _is_due(self, every: int | None) -> bool:
        return every is not None and self.trainer.step % every == 0

    def _validate(self, should_stop: ShouldStop) -> None:
        """Validate the model after a saved step and save the result, unless asked to stop."""
        validation = self.validate(should_stop)
        self.stopped = validation is None
        if validation is None:
            return
        self._record_validation(validation)
        self.state.unvalidated = False
        if self._ranks.is_main:
            replace_state(self.run.checkpoints, self._current_state())
            prune_checkpoints(self.run.checkpoints, self.config.training)

    def _record_training(self, result: StepResult) -> None:
        loss, nll_loss, tokens = self.trainer.window
        self.trainer.window = [0.0, 0.0, 0.0]
        now, norm = time.monotonic(), result.gradient_norm
        seconds = max(now - self._measured_since, 1e-9)
        tokens_per_second = round((tokens - self._tokens_before) / seconds)
        self._measured_since, self._tokens_before = now, 0.0
        # This includes validations.
        seconds_per_step = (now - self._began) / (result.step - self._first_step)
        tgt_tokens = max(1, int(tokens))  # 0 if all steps were skipped
        self._record(
            "train",
            loss=loss / tgt_tokens,
            perplexity=metrics_log.perplexity(nll_loss / tgt_tokens),
            learning_rate=result.learning_rate,
            # JSON has no infinity or NaN, which the norm of a skipped step may be.
            grad_norm=norm if math.isfinite(norm) else None,
            tgt_tokens=tgt_tokens,
            tokens_per_second=tokens_per_second,
            eta_seconds=round(seconds_per_step * (self.trainer.total_steps - result.step)),
        )

    def _record_validation(self, validation: Validation) -> None:
        if not math.isfinite(validation.loss):
            if self._ranks.is_main:  # so that the run ends with usable weights
                remove_directory(checkpoint_path(self.run.checkpoints, self.trainer.step))
            raise self._divergence_error(f"the validation loss is {validation.loss}")
        self._record(
            "validation",
            loss=validation.loss,
            perplexity=metrics_log.perplexity(validation.loss),
            **validation.scores,
            tokenize=validation.tokenize,
            select=validation.select,
            best=self.state.add_validation(self.trainer.step, validation.rank, validation.loss),
            samples=list(validation.samples),
        )

    def _record(self, kind: str, **values: Any) -> None:
        place = {"kind": kind, "step": self.trainer.step, "epoch": self.trainer.epoch}
        record = {**place, **values, "seconds": round(self._seconds, 3)}
        if self._ranks.is_main:
            metrics_log.append_record(self.run.metrics, record)
            self._notify("on_record", record)
        if kind != metrics_log.SESSION_KIND:
            self._show_record(record)

    @property
    def _seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self._began

    def _save(self) -> None:
        weights = weights_of(self.trainer.eval_model)
        if not all(bool(weight.isfinite().all()) for weight in weights.values()):
            # A step with a finite gradient may still overflow.
            raise self._divergence_error("a weight is not a finite number")
        if self._ranks.is_main:
            optimizer, state = self.trainer.optimizer.state(), self._current_state()
            save_checkpoint(self.run.checkpoints, weights, optimizer, state, self._tokenizer)
            if not self.state.unvalidated:  # otherwise validation shows first whether it is best
                prune_checkpoints(self.run.checkpoints, self.config.training)

    def _current_state(self) -> dict[str, Any]:
        # A resumed run does not repeat earlier records, so they must be on disk before its state.
        sync(self.run.metrics)
        self.state.seconds = self._seconds
        return {**self.state.model_dump(), **self.trainer.state()}

    def _divergence_error(self, problem: str) -> TrainingError:
        return TrainingError(
            f"step {self.trainer.step}: {problem}; lower the learning rate (training.schedule) and "
            "start again with `overwrite`"
        )

    def _resume(self) -> None:
        # The main process finds the newest intact checkpoint, and renames damaged ones.
        newest: Checkpoint | None = None
        if self._ranks.is_main:
            newest = open_newest_intact(self.run.checkpoints, self._tokenizer)
        step = self._ranks.broadcast(newest.step if newest else None)
        if step is None:
            return
        path = checkpoint_path(self.run.checkpoints, step)
        checkpoint = newest or Checkpoint.open(path, self._tokenizer)
        self.state = state = checkpoint.load_state()
        load_weights(self.trainer.eval_model, checkpoint.load_weights())
        try:
            self.trainer.restore(state, checkpoint.load_optimizer())
        except (KeyError, RuntimeError) as error:
            if is_out_of_memory(error):
                raise
            raise CheckpointError(f"{checkpoint.path}: does not fit the model: {error}") from error
        # The best checkpoint may have been deleted for a better one that is now damaged.
        best = state.best_step
        if best is not None and not checkpoint_path(self.run.checkpoints, best).is_dir():
            state.best_step, state.best_rank = None, -1.0
