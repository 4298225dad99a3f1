"""A training session: the steps, records, validations and checkpoints of one run."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from transformer_cli.config.schema import Config
from transformer_cli.errors import CheckpointError, TrainingError
from transformer_cli.files import remove_directory, sync
from transformer_cli.model.device import sum_dtype
from transformer_cli.model.transformer import load_weights, weights_of
from transformer_cli.ranks import Ranks
from transformer_cli.runs.checkpoint import (
    Checkpoint,
    checkpoint_path,
    open_newest_intact,
    prune_checkpoints,
)
from transformer_cli.runs.checkpoint_writer import replace_state, save_checkpoint
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.records import SESSION_KIND, describe_environment
from transformer_cli.training.curves import EventLog
from transformer_cli.training.loss import Losses
from transformer_cli.training.metrics import MetricsLog, TrainState, Validation, perplexity
from transformer_cli.training.trainer import StepResult, Trainer

LOG_EVERY = 50
"""Optimizer steps between two training records."""


@dataclass(frozen=True)
class TrainingRecord:
    """One line of metrics.jsonl."""

    kind: str
    values: dict[str, Any]


Event = StepResult | TrainingRecord
Validate = Callable[[Callable[[], bool]], Validation | None]


class Session:
    """One run's training, from its newest intact checkpoint to its end.

    All ranks run the same session; only the main process writes. ``validate`` evaluates
    ``trainer.eval_model``; it returns None if its ``should_stop`` returns true.
    """

    def __init__(
        self,
        config: Config,
        run: RunDirectory,
        trainer: Trainer,
        tokenizer_fingerprint: str,
        validate: Validate,
    ) -> None:
        self.config = config
        self.run = run
        self.trainer = trainer
        self.validate = validate
        self.train_state = TrainState()
        self.damaged_checkpoints: list[str] = []
        """A message for each that was passed over."""
        self.stopped = False
        """Whether the session ended because a rank was asked to stop."""
        self._tokenizer = tokenizer_fingerprint
        self._ranks = trainer.ranks
        self._window = Window.empty(trainer.device)
        self._unvalidated = False
        """Whether the current step has yet to be validated."""
        self._resume()
        self._pace = Pace(trainer.step)
        if self._ranks.is_main:
            # An interrupted validation may have been recorded already.
            self._metrics = MetricsLog.open(run.metrics, trainer.step, not self._unvalidated)
            start_time = time.time() - self.train_state.seconds
            self._tensorboard = EventLog.open(run.tensorboard, run.metrics, start_time)

    @property
    def is_finished(self) -> bool:
        """True if no step and no validation is left."""
        is_trained = self.trainer.step >= self.trainer.total_steps or self._is_out_of_patience
        return is_trained and not self._unvalidated

    def events(self, should_stop: Callable[[], bool]) -> Iterator[Event]:
        """Train, yielding each step and each record.

        ``should_stop`` is called at each step and during validations. If it returns true on any
        rank, the session ends with a checkpoint after the step. The next session repeats an
        interrupted validation, from the checkpoint that is saved before each one.
        """
        # Not before: the forecast in between is not training time.
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
        for result in trainer.steps(should_stop):
            self._window.add(result)
            self._pace.add(result.tgt_tokens * self._ranks.size)
            yield result
            yield from self._finish_step(result, should_stop)
            if self.stopped or self._is_out_of_patience:
                return

    def _finish_step(
        self, result: StepResult, should_stop: Callable[[], bool]
    ) -> Iterator[TrainingRecord]:
        """Record, save and validate what is due after a step."""
        is_last = result.step == self.trainer.total_steps
        recording = is_last or self._is_due(LOG_EVERY)
        every = self.config.training.validate_every
        validating = is_last or (result.ends_epoch if every is None else self._is_due(every))
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

    def _validate_step(self, should_stop: Callable[[], bool]) -> Iterator[TrainingRecord]:
        """Validate the saved step, yield its record and save the result.

        If a stop is requested meanwhile, the step stays unvalidated.
        """
        validation = self.validate(should_stop)
        self.stopped = validation is None
        if validation is not None:
            yield self._record_validation(validation)
            self._unvalidated = False
            if self._ranks.is_main:
                replace_state(self.run.checkpoints, self._state(), self._tokenizer)
                prune_checkpoints(self.run.checkpoints, self.config.training.keep_last)

    @property
    def _is_out_of_patience(self) -> bool:
        patience = self.config.training.patience
        return patience is not None and self.train_state.bad_validations >= patience

    def _is_due(self, every: int | None) -> bool:
        return every is not None and self.trainer.step % every == 0

    def _record_training(self, result: StepResult) -> TrainingRecord:
        tgt_tokens = max(1, int(self._window.tgt_tokens))  # 0 if all steps were skipped
        loss = self._window.losses.loss.item() / tgt_tokens
        nll_loss = self._window.losses.nll_loss.item() / tgt_tokens
        norm = result.gradient_norm.item()
        self._window = Window.empty(self.trainer.device)
        return self._record(
            "train",
            loss=loss,
            perplexity=perplexity(nll_loss),
            learning_rate=result.learning_rate,
            # A skipped step's is no number that JSON can have.
            grad_norm=norm if math.isfinite(norm) else None,
            tgt_tokens=tgt_tokens,
            tokens_per_second=self._pace.read_tokens_per_second(),
            eta_seconds=self._pace.estimate_seconds(result.step, self.trainer.total_steps),
        )

    def _record_validation(self, validation: Validation) -> TrainingRecord:
        if not math.isfinite(validation.loss):
            if self._ranks.is_main:  # the run keeps the last usable weights
                remove_directory(checkpoint_path(self.run.checkpoints, self.trainer.step))
            raise self._divergence_error(f"the validation loss is {validation.loss}")
        best = self.train_state.update(self.trainer.step, validation.rank, validation.loss)
        return self._record(
            "validation",
            loss=validation.loss,
            perplexity=perplexity(validation.loss),
            **validation.scores,
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

    def _record(self, kind: str, **values: Any) -> TrainingRecord:
        self.train_state.seconds = time.monotonic() - self._started
        where = {"kind": kind, "step": self.trainer.step, "epoch": self.trainer.epoch}
        record = TrainingRecord(
            kind, {**where, **values, "seconds": round(self.train_state.seconds, 3)}
        )
        if self._ranks.is_main:
            self._metrics.append(record.values)
            self._tensorboard.append(record.values)
        return record

    def _save(self) -> None:
        weights = weights_of(self.trainer.eval_model)
        if not all(bool(weight.isfinite().all()) for weight in weights.values()):
            # A step along a finite gradient may still overflow.
            raise self._divergence_error("a weight is not a finite number")
        if self._ranks.is_main:
            optimizer, state = self.trainer.optimizer.state(), self._state()
            save_checkpoint(self.run.checkpoints, weights, optimizer, state, self._tokenizer)
            if not self._unvalidated:  # else pruned once it is known whether it is the best
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
        # The best checkpoint may have been pruned for a better one that is now damaged.
        best = self.train_state.best_step
        if best is not None and not checkpoint_path(self.run.checkpoints, best).is_dir():
            self.train_state.best_step, self.train_state.best_rank = None, -1.0

    def _open_newest_intact(self) -> Checkpoint | None:
        """Open the newest intact checkpoint; the main process finds it and renames damaged ones."""
        newest: Checkpoint | None = None
        if self._ranks.is_main:
            newest, self.damaged_checkpoints = open_newest_intact(
                self.run.checkpoints, self._tokenizer
            )
        step = self._ranks.broadcast(newest.step if newest else None)
        if self._ranks.is_main or step is None:
            return newest
        return Checkpoint.open(checkpoint_path(self.run.checkpoints, step), self._tokenizer)


# --- between two records --------------------------------------------------------------------------


@dataclass
class Window:
    """Losses summed over the steps since the last record, on the device."""

    losses: Losses
    tgt_tokens: Int[Tensor, ""]

    @classmethod
    def from_state(cls, state: Mapping[str, Any], device: torch.device) -> "Window":
        """Restore the window from ``state``."""
        values = [state[key] for key in Losses._fields]
        sums = torch.tensor(values, dtype=sum_dtype(device), device=device)
        return cls(Losses(*sums.unbind()), torch.full((), state["tgt_tokens"], device=device))

    @classmethod
    def empty(cls, device: torch.device) -> "Window":
        """Return the window before its first step."""
        return cls.from_state({**dict.fromkeys(Losses._fields, 0.0), "tgt_tokens": 0}, device)

    def add(self, result: StepResult) -> None:
        """Add one step."""
        for total, loss in zip(self.losses, result.losses, strict=True):
            total += loss
        self.tgt_tokens += result.tgt_tokens * result.is_finite

    def reduce(self, ranks: Ranks) -> None:
        """Sum over all ranks on the main process; the others start again from zero."""
        if ranks.size == 1:
            return
        sums = (*self.losses, self.tgt_tokens)
        for own, total in zip(sums, ranks.sum([own.item() for own in sums]), strict=True):
            own.fill_(total if ranks.is_main else 0)

    def state(self) -> dict[str, Any]:
        """Return the sums, for a checkpoint."""
        losses = {name: loss.item() for name, loss in self.losses._asdict().items()}
        return {**losses, "tgt_tokens": self.tgt_tokens.item()}


class Pace:
    """How fast a session trains, which starts from the step ``first_step``."""

    def __init__(self, first_step: int) -> None:
        self._first_step = first_step
        self._began = self._since = time.monotonic()
        self._tokens = 0

    def add(self, tokens: int) -> None:
        """Count the target tokens of a step."""
        self._tokens += tokens

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Leave the time that the block takes, which is no step, out of the tokens a second."""
        started = time.monotonic()
        yield
        self._since += time.monotonic() - started

    def read_tokens_per_second(self) -> int:
        """Return the target tokens a second since this was last asked."""
        now = time.monotonic()
        rate = self._tokens / max(now - self._since, 1e-9)
        self._tokens, self._since = 0, now
        return round(rate)

    def estimate_seconds(self, step: int, total_steps: int) -> int:
        """Return the seconds to the last step, if it goes on as before, validations included."""
        elapsed = time.monotonic() - self._began
        return round(elapsed / (step - self._first_step) * (total_steps - step))
