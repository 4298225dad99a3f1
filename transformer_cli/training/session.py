"""A training session: steps, records, validations and checkpoints of one run, in their order."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from transformer_cli.config.schema import Config
from transformer_cli.errors import CheckpointError, TrainingError
from transformer_cli.files import remove_directory, sync
from transformer_cli.model.perplexity import perplexity
from transformer_cli.model.weights import load_weights, weights_of
from transformer_cli.runs.checkpoint import (
    Checkpoint,
    checkpoint_path,
    newest_whole,
    prune_checkpoints,
    replace_state,
    save_checkpoint,
)
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.environment import KIND, describe_environment
from transformer_cli.runs.replacing import discard_previous
from transformer_cli.training.events import EventLog
from transformer_cli.training.metrics import MetricsLog, Window
from transformer_cli.training.train_state import TrainState
from transformer_cli.training.trainer import StepResult, Trainer

LOG_EVERY = 50
"""Optimizer steps between two training records."""


class Validation(NamedTuple):
    """How good the model is on the validation split."""

    loss: float
    """Mean negative log-likelihood of a target token."""
    bleu: float
    """Greedy translation's BLEU, 0 to 100."""
    bleu_lc: float
    """The same on lowercased text."""


@dataclass(frozen=True)
class Record:
    """One line of metrics.jsonl."""

    kind: str
    values: dict[str, Any]


Event = StepResult | Record


@dataclass
class Session:
    """One run's training, from where its last checkpoint stands to its end.

    Args:
        config: the run's settings.
        run: where checkpoints and metrics go; prepared.
        trainer: set up for ``config``, at step 0.
        tokenizer: fingerprint of the run's tokenizer.
        validate: measures the model that the trainer keeps on the validation split; told now and
            then by what it is given to give up, it gives None.

    Attributes:
        found_damaged: what is wrong with each newer checkpoint than the one that it goes on from.
        stopped: whether it ended because some rank was asked to stop.

    Where several ranks train, all of them do the same; the leading one alone writes.
    """

    config: Config
    run: RunDirectory
    trainer: Trainer
    tokenizer: str
    validate: Callable[[Callable[[], bool]], Validation | None]
    train_state: TrainState = field(default_factory=TrainState)

    def __post_init__(self) -> None:
        self._ranks = self.trainer.ranks
        self._window = Window.empty(self.trainer.device)
        self.found_damaged: list[str] = []
        self.stopped = False
        # Whether a validation of the step that is done is still to come.
        self._unvalidated = False
        self._resume()
        if self._ranks.is_main:
            # A validation that is still to come may have been recorded all the same.
            self._metrics = MetricsLog(
                self.run.metrics, self.trainer.step, validated=not self._unvalidated
            )
            began = time.time() - self.train_state.seconds
            self._events = EventLog(self.run.tensorboard, self.run.metrics, began)

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do."""
        is_trained = self.trainer.step >= self.trainer.total_steps or self._out_of_patience
        return is_trained and not self._unvalidated

    def events(self, should_stop: Callable[[], bool]) -> Iterator[Event]:
        """Train, giving each thing that happens.

        Args:
            should_stop: asked at each step, and in validations; when true on any rank, a
                checkpoint is written after the step and the iteration ends. A validation that it
                interrupts is taken up again by the next session, from the checkpoint that is
                written before each validation.

        Raises:
            TrainingError: a loss or a gradient is no longer a number.
            CheckpointError: a checkpoint cannot be written.
        """
        # Not when the session was made: a forecast in between is no training.
        self._started = time.monotonic() - self.train_state.seconds
        if self.finished:
            return
        trainer = self.trainer
        environment = describe_environment(trainer.device, trainer.precision, self._ranks.size)
        self._record(KIND, **asdict(environment))
        if self._unvalidated:
            yield from self._validated(should_stop)
            if self._unvalidated or self.finished:
                return
        for progress in self.trainer.steps(should_stop):
            self._window.add(progress)
            yield progress
            is_last = progress.step == self.trainer.total_steps
            recording = is_last or self._is_due(LOG_EVERY)
            validating = is_last or self._validation_is_due(progress)
            saving = validating or progress.stop or self._is_due(self.config.training.save_every)
            if recording or saving:
                self._window.gather(self._ranks)
            if recording:
                yield self._record_training(progress)
            self._unvalidated = validating
            if saving:
                self._save()
            if validating:
                yield from self._validated(should_stop)
            self.stopped = progress.stop or self._unvalidated
            if self.stopped:
                # When the first of them ends, torchrun ends the others: not while one still saves.
                self._ranks.barrier()
            if self.stopped or self._out_of_patience:
                return

    def _validated(self, should_stop: Callable[[], bool]) -> Iterator[Record]:
        """Validate the step that is saved; give the record of it, and save how it was judged.

        If a stop is requested meanwhile, the step stays unvalidated.
        """
        validation = self.validate(should_stop)
        self.stopped = validation is None
        if validation is not None:
            yield self._record_validation(validation)
            self._unvalidated = False
            self._save_judgement()

    @property
    def _out_of_patience(self) -> bool:
        patience = self.config.training.patience
        return patience is not None and self.train_state.bad_validations >= patience

    def _is_due(self, every: int | None) -> bool:
        return every is not None and self.trainer.step % every == 0

    def _validation_is_due(self, progress: StepResult) -> bool:
        every = self.config.training.validate_every
        return progress.ends_epoch if every is None else self._is_due(every)

    def _record_training(self, progress: StepResult) -> Record:
        tgt_tokens = max(1, self._window.tgt_tokens)  # none, if all steps were left out
        loss = self._window.smoothed.item() / tgt_tokens
        unsmoothed = self._window.unsmoothed.item() / tgt_tokens
        self._window = Window.empty(self.trainer.device)
        return self._record(
            "train",
            loss=loss,
            perplexity=perplexity(unsmoothed),
            learning_rate=progress.learning_rate,
            tgt_tokens=tgt_tokens,
        )

    def _record_validation(self, validation: Validation) -> Record:
        if not math.isfinite(validation.loss):
            if self._ranks.is_main:  # the run ends with the last weights that are of use
                remove_directory(checkpoint_path(self.run.checkpoints, self.trainer.step))
            raise self._diverged(f"the validation loss is {validation.loss}")
        # A model that writes lower case only is judged without regard to case.
        bleu = validation.bleu_lc if self.config.tokenizer.lowercase else validation.bleu
        best = self.train_state.judge(self.trainer.step, bleu, validation.loss)
        return self._record(
            "validation",
            loss=validation.loss,
            perplexity=perplexity(validation.loss),
            bleu=validation.bleu,
            bleu_lc=validation.bleu_lc,
            best=best,
        )

    def _diverged(self, what: str) -> TrainingError:
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
            self._events.append(record.values)
        return record

    def _save(self) -> None:
        weights = weights_of(self.trainer.eval_model)
        if not all(bool(weight.isfinite().all()) for weight in weights.values()):
            # A finite gradient may still be too large a step.
            raise self._diverged("a weight is not a finite number")
        if not self._ranks.is_main:
            return
        moments = self.trainer.optimizer_state()
        save_checkpoint(self.run.checkpoints, weights, moments, self._state(), self.tokenizer)
        discard_previous(self.run.path)
        if not self._unvalidated:  # the older ones stay until it is known what this one is worth
            self._prune()

    def _save_judgement(self) -> None:
        if self._ranks.is_main:
            replace_state(self.run.checkpoints, self._state(), self.tokenizer)
            self._prune()

    def _prune(self) -> None:
        prune_checkpoints(self.run.checkpoints, self.config.training.keep)

    def _state(self) -> dict[str, Any]:
        """What a checkpoint is to say of where training stands."""
        # The checkpoint vouches for the records up to its step: they must be on disk first.
        sync(self.run.metrics)
        self.train_state.seconds = time.monotonic() - self._started
        return {
            **self.trainer.state(),
            **asdict(self.train_state),
            "window": self._window.state(),
            "unvalidated": self._unvalidated,
        }

    def _resume(self) -> None:
        checkpoint = self._newest_whole()
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
        if self._ranks.is_main:  # the others' sums are in it
            self._window = Window.restored(state["window"], self.trainer.device)
        self._unvalidated = state.get("unvalidated", False)
        self.train_state = TrainState(**{key: state[key] for key in asdict(self.train_state)})
        self._forget_lost_best()

    def _newest_whole(self) -> Checkpoint | None:
        """The newest checkpoint, or where it is damaged, the newest one that is not.

        The leading rank looks, and sets damaged ones aside; the others take what it found.
        """
        found: Checkpoint | None = None
        step = 0
        if self._ranks.is_main:
            found, self.found_damaged = newest_whole(self.run.checkpoints, self.tokenizer)
            step = 0 if found is None else found.step
        (step_of_leader,) = self._ranks.sum([step])
        if self._ranks.is_main or not step_of_leader:
            return found
        path = checkpoint_path(self.run.checkpoints, int(step_of_leader))
        return Checkpoint.open(path, self.tokenizer)

    def _forget_lost_best(self) -> None:
        # The best one so far may have gone when a better one came that is damaged now.
        best = self.train_state.best_step
        if best is not None and not checkpoint_path(self.run.checkpoints, best).is_dir():
            self.train_state.best_step, self.train_state.best_bleu = None, -1.0
