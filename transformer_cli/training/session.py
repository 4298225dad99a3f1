"""A training session: the steps, records, validations and checkpoints of one run."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from transformer_cli.config.schema import Config
from transformer_cli.errors import CheckpointError, TrainingError
from transformer_cli.files import remove_directory, sync
from transformer_cli.model.transformer import load_weights, weights_of
from transformer_cli.runs.checkpoint import Checkpoint, checkpoint_path
from transformer_cli.runs.checkpoint_directory import open_newest_intact, prune_checkpoints
from transformer_cli.runs.checkpoint_writer import replace_state, save_checkpoint
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.environment import SESSION_KIND, describe_environment
from transformer_cli.runs.overwrite import discard_previous
from transformer_cli.training.events import EventLog
from transformer_cli.training.metrics import MetricsLog, Pace, Window, perplexity
from transformer_cli.training.train_state import TrainState, Validation
from transformer_cli.training.trainer import StepResult, Trainer

LOG_EVERY = 50
"""Optimizer steps between two training records."""


@dataclass(frozen=True)
class Record:
    """One line of metrics.jsonl."""

    kind: str
    values: dict[str, Any]


Event = StepResult | Record
Validate = Callable[[Callable[[], bool]], Validation | None]


@dataclass
class Session:
    """One run's training, from its last checkpoint to its end; opened by ``open``.

    All ranks run the same session; only the main process writes.

    Attributes:
        config: the run's settings.
        run: the run directory, initialized.
        trainer: built for ``config``.
        tokenizer_fingerprint: of the run's tokenizer.
        validate: evaluates ``trainer.eval_model``; returns None if its ``should_stop`` returns
            true.
        train_state: the best validation so far, and the time spent.
        damaged_checkpoints: a message for each damaged checkpoint that was passed over.
        stopped: whether the session ended because a rank was asked to stop.
    """

    config: Config
    run: RunDirectory
    trainer: Trainer
    tokenizer_fingerprint: str
    validate: Validate
    train_state: TrainState = field(default_factory=TrainState)
    damaged_checkpoints: list[str] = field(default_factory=list)
    stopped: bool = False
    _metrics: MetricsLog = field(init=False)
    _tensorboard: EventLog = field(init=False)
    _unvalidated: bool = False
    """Whether the current step has yet to be validated."""

    @classmethod
    def open(
        cls,
        config: Config,
        run: RunDirectory,
        trainer: Trainer,
        tokenizer_fingerprint: str,
        validate: Validate,
    ) -> "Session":
        """Open the run's logs, and restore ``trainer`` from the newest intact checkpoint.

        Raises:
            CheckpointError: there are checkpoints but none is intact, or it does not fit the model
                or tokenizer.
            ConfigError: the number of batches per step has changed.
        """
        session = cls(config, run, trainer, tokenizer_fingerprint, validate)
        session._resume()
        if trainer.ranks.is_main:
            # An interrupted validation may have been recorded already.
            is_validated = not session._unvalidated
            session._metrics = MetricsLog.open(run.metrics, trainer.step, is_validated)
            start_time = time.time() - session.train_state.seconds
            session._tensorboard = EventLog.open(run.tensorboard, run.metrics, start_time)
        return session

    def __post_init__(self) -> None:
        self._pace = Pace(self.trainer.step)
        self._ranks = self.trainer.ranks
        self._window = Window.empty(self.trainer.device)

    @property
    def is_finished(self) -> bool:
        """True if no step and no validation is left."""
        is_trained = self.trainer.step >= self.trainer.total_steps or self._is_out_of_patience
        return is_trained and not self._unvalidated

    def events(self, should_stop: Callable[[], bool]) -> Iterator[Event]:
        """Train, yielding each step and each record.

        Args:
            should_stop: called at each step and during validations. If it returns true on any
                rank, the session ends with a checkpoint after the step. The next session repeats
                an interrupted validation, from the checkpoint that is saved before each one.

        Raises:
            TrainingError: a loss, a gradient or a weight is not finite.
            CheckpointError: a checkpoint cannot be written.
        """
        # Not in ``open``: the forecast in between is not training time.
        self._pace = Pace(self.trainer.step)
        self._started = time.monotonic() - self.train_state.seconds
        if self.is_finished:
            return
        trainer = self.trainer
        environment = describe_environment(trainer.device, trainer.precision, self._ranks.size)
        self._record(SESSION_KIND, **asdict(environment))
        if self._unvalidated:
            yield from self._validate_step(should_stop)
            if self._unvalidated or self.is_finished:
                return
        for result in self.trainer.steps(should_stop):
            self._window.add(result)
            self._pace.add(result.tgt_tokens * self._ranks.size)
            yield result
            is_last = result.step == self.trainer.total_steps
            recording = is_last or self._is_due(LOG_EVERY)
            validating = is_last or self._validation_is_due(result)
            saving = validating or result.stop or self._is_due(self.config.training.save_every)
            if recording or saving:
                self._window.reduce(self._ranks)
            if recording:
                yield self._record_training(result)
            self._unvalidated = validating
            with self._pace.pause():
                if saving:
                    self._save()
                if validating:
                    yield from self._validate_step(should_stop)
            self.stopped = result.stop or self._unvalidated
            if self.stopped:
                # When the first process ends, torchrun ends the others; one may still be saving.
                self._ranks.barrier()
            if self.stopped or self._is_out_of_patience:
                return

    def _validate_step(self, should_stop: Callable[[], bool]) -> Iterator[Record]:
        """Validate the saved step, yield its record and save the result.

        If a stop is requested meanwhile, the step stays unvalidated.
        """
        validation = self.validate(should_stop)
        self.stopped = validation is None
        if validation is not None:
            yield self._record_validation(validation)
            self._unvalidated = False
            self._save_validation()

    @property
    def _is_out_of_patience(self) -> bool:
        patience = self.config.training.patience
        return patience is not None and self.train_state.bad_validations >= patience

    def _is_due(self, every: int | None) -> bool:
        return every is not None and self.trainer.step % every == 0

    def _validation_is_due(self, result: StepResult) -> bool:
        every = self.config.training.validate_every
        return result.ends_epoch if every is None else self._is_due(every)

    def _record_training(self, result: StepResult) -> Record:
        tgt_tokens = max(1, int(self._window.tgt_tokens))  # 0 if all steps were skipped
        loss = self._window.losses.loss.item() / tgt_tokens
        nll_loss = self._window.losses.nll_loss.item() / tgt_tokens
        self._window = Window.empty(self.trainer.device)
        return self._record(
            "train",
            loss=loss,
            perplexity=perplexity(nll_loss),
            learning_rate=result.learning_rate,
            grad_norm=_finite(result.gradient_norm.item()),
            tgt_tokens=tgt_tokens,
            tokens_per_second=self._pace.read_tokens_per_second(),
            eta_seconds=self._pace.estimate_seconds(result.step, self.trainer.total_steps),
        )

    def _record_validation(self, validation: Validation) -> Record:
        if not math.isfinite(validation.loss):
            if self._ranks.is_main:  # the run keeps the last usable weights
                remove_directory(checkpoint_path(self.run.checkpoints, self.trainer.step))
            raise self._divergence_error(f"the validation loss is {validation.loss}")
        best = self.train_state.update(self.trainer.step, validation.rank, validation.loss)
        return self._record(
            "validation",
            loss=validation.loss,
            perplexity=perplexity(validation.loss),
            bleu=validation.bleu,
            bleu_lc=validation.bleu_lc,
            chrf=validation.chrf,
            tokenize=validation.tokenize,
            select=validation.select,
            best=best,
            samples=[asdict(sample) for sample in validation.samples],
        )

    def _divergence_error(self, what: str) -> TrainingError:
        return TrainingError(
            f"step {self.trainer.step}: {what}; lower the learning rate (training.schedule) and "
            "start again with --overwrite"
        )

    def _record(self, kind: str, **values: Any) -> Record:
        self.train_state.seconds = time.monotonic() - self._started
        where = {"kind": kind, "step": self.trainer.step, "epoch": self.trainer.epoch}
        record = Record(kind, {**where, **values, "seconds": round(self.train_state.seconds, 3)})
        if self._ranks.is_main:
            self._metrics.append(record.values)
            self._tensorboard.append(record.values)
        return record

    def _save(self) -> None:
        weights = weights_of(self.trainer.eval_model)
        if not all(bool(weight.isfinite().all()) for weight in weights.values()):
            # A step along a finite gradient may still overflow.
            raise self._divergence_error("a weight is not a finite number")
        if not self._ranks.is_main:
            return
        optimizer = self.trainer.optimizer_state()
        save_checkpoint(
            self.run.checkpoints, weights, optimizer, self._state(), self.tokenizer_fingerprint
        )
        if not self._unvalidated:  # otherwise pruned once validation tells whether it is the best
            self._prune()

    def _save_validation(self) -> None:
        if self._ranks.is_main:
            replace_state(self.run.checkpoints, self._state(), self.tokenizer_fingerprint)
            self._prune()

    def _prune(self) -> None:
        discard_previous(self.run.path)
        prune_checkpoints(self.run.checkpoints, self.config.training.keep_last)

    def _state(self) -> dict[str, Any]:
        """Return the state to save in a checkpoint."""
        # A resumed run does not repeat records up to this step: they must be on disk before it.
        sync(self.run.metrics)
        self.train_state.seconds = time.monotonic() - self._started
        return {
            **self.trainer.state(),
            **asdict(self.train_state),
            "window": self._window.state(),
            "unvalidated": self._unvalidated,
        }

    def _resume(self) -> None:
        checkpoint = self._open_newest_intact()
        if checkpoint is None:
            return
        state = checkpoint.load_state()
        if "best_bleu" in state:  # of an earlier version
            state["best_rank"] = state["best_bleu"]
        lacking = {"step", "epoch", "batch", "window", *asdict(self.train_state)} - state.keys()
        if lacking:
            raise CheckpointError(f"{checkpoint.path}: its state lacks '{min(lacking)}'")
        load_weights(self.trainer.eval_model, checkpoint.load_weights())
        try:
            self.trainer.restore(state, checkpoint.load_optimizer())
        except (KeyError, RuntimeError) as error:
            raise CheckpointError(f"{checkpoint.path}: of another model: {error}") from error
        if self._ranks.is_main:  # already summed over ranks: others start from zero
            self._window = Window.from_state(state["window"], self.trainer.device)
        self._unvalidated = state.get("unvalidated", False)
        self.train_state = TrainState(**{key: state[key] for key in asdict(self.train_state)})
        self._reset_missing_best()

    def _open_newest_intact(self) -> Checkpoint | None:
        """Open the newest intact checkpoint; the main process finds it and renames damaged ones."""
        found: Checkpoint | None = None
        if self._ranks.is_main:
            found, self.damaged_checkpoints = open_newest_intact(
                self.run.checkpoints, self.tokenizer_fingerprint
            )
        step = self._ranks.broadcast(found.step if found else None)
        if self._ranks.is_main or step is None:
            return found
        return Checkpoint.open(
            checkpoint_path(self.run.checkpoints, step), self.tokenizer_fingerprint
        )

    def _reset_missing_best(self) -> None:
        # The best checkpoint may have been pruned for a better one that is now damaged.
        best = self.train_state.best_step
        if best is not None and not checkpoint_path(self.run.checkpoints, best).is_dir():
            self.train_state.best_step, self.train_state.best_rank = None, -1.0


def _finite(value: float) -> float | None:
    """Return a number that JSON can have; None for a skipped step's."""
    return value if math.isfinite(value) else None
