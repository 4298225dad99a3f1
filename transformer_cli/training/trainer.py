"""The training loop, as a generator of optimizer steps. It prints nothing and owns no files.

On each rank, a step goes through these classes:

    EpochBatches          (seed, epoch, index) -> batch; ranks take turns, each gets ``accumulate``
        |
    GradientAccumulator   runs forward, loss and backward on each batch, in micro-batches if memory
        |                 is short; sums the gradients over the ranks
    Optimizer             clips gradients, updates with Adam or Muon, averages the weights
        |
    Trainer               counts step, epoch and batch; sums losses in ``window``; yields the result

``Session`` (session.py) receives the results, and writes records and checkpoints.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from transformer_cli.base import registry
from transformer_cli.base.errors import ConfigError, TrainingError
from transformer_cli.base.ranks import SINGLE_PROCESS, Ranks
from transformer_cli.config.schema import Config, TrainingConfig
from transformer_cli.data.batches import Augmentation, Batch, EpochBatches, prefetch
from transformer_cli.data.shards import ShardedText
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.checkpoint import TrainingState
from transformer_cli.training.loss import GradientAccumulator
from transformer_cli.training.optimizer import Optimizer, Update, last_step

# Number of batches that a thread prepares while a GPU computes.
_PREFETCHED = 4


@dataclass(frozen=True, kw_only=True)
class StepResult(Update):
    """The result of one optimizer step."""

    step: int  # counted from 1
    epoch: int  # epochs completed after the step
    learning_rate: float
    tgt_tokens: int  # on this rank
    ends_epoch: bool
    micro_batches: int  # number of parts that each batch was split into to fit into memory
    stop: bool  # whether any rank was asked to stop before the step


class Trainer:
    """An object that trains a model, one optimizer step at a time.

    Batches and dropout depend only on the seed, step, epoch and batch index, so a resumed run ends
    exactly like an uninterrupted one. A step on two ranks equals a step on one rank with twice the
    gradient accumulation.
    """

    def __init__(
        self,
        model: Transformer,
        pairs: ShardedText,
        config: Config,
        precision: torch.dtype,
        augmentation: Augmentation | None = None,
        ranks: Ranks = SINGLE_PROCESS,
    ) -> None:
        model.freeze(config.training.freeze)
        self.model = model
        self.ranks = ranks
        self.precision = precision
        self.device = next(model.parameters()).device
        has_average = config.training.has_average
        self._eval_model = copy.deepcopy(model).requires_grad_(False) if has_average else model
        self.config = config.training
        self.d_model = config.model.d_model
        average = registry.find("average", self.config.average) if self.config.average else None
        kind: type[Optimizer] = average.load() if average else Optimizer
        self.optimizer = kind(model, self._eval_model, self.config, ranks)
        self._gradients = GradientAccumulator(model, self.config, precision, config.seed, ranks)
        self.step = self.epoch = self.batch = self.skipped = 0
        self.window = [0.0, 0.0, 0.0]
        """Sums of loss, NLL and target tokens since the last training record in metrics.jsonl."""
        self.epochs = EpochBatches(pairs, self.config.batch_tokens, config.seed, augmentation)
        self.batches_per_step = self.config.accumulate * ranks.size
        self.steps_per_epoch = -(-len(self.epochs) // self.batches_per_step)
        self.use(self.config)

    def use(self, training: TrainingConfig) -> None:
        """Use settings that differ only in where training ends."""
        self.config = training
        self.total_steps = last_step(training, self.steps_per_epoch)
        self._batches = self._iter_batches()

    @property
    def eval_model(self) -> Transformer:
        """The model to validate and save: the one with averaged weights, if there is an average."""
        self.optimizer.update_average()
        return self._eval_model

    @property
    def micro_batches(self) -> int:
        """The number of parts that each batch is split into to fit into memory."""
        return self._gradients.micro_batches

    def steps(self, should_stop: Callable[[], bool] = lambda: False) -> Iterator[StepResult]:
        """Train to the end; add each optimizer step's losses to ``window`` and yield its result.

        ``should_stop`` is called once per step. If it returns true on any rank, ``StepResult.stop``
        is set, and the caller decides whether to end the loop.

        Raises:
            TrainingError: a loss or a gradient is not finite, and no more steps may be skipped. The
                weights stay as they were before the step.
        """
        while self.step < self.total_steps:
            first, last = self.batch + 1, min(self.batch + self.batches_per_step, len(self.epochs))
            places = f"batch {last}" if first == last else f"batches {first} to {last}"
            where = f"step {self.step + 1} (epoch {self.epoch + 1}, {places})"
            own = range(first + self.ranks.rank, last + 1, self.ranks.size)
            batches = list(islice(self._batches, len(own)))
            tgt_tokens = sum(batch.tgt_tokens for batch in batches)
            tokens_of_all, stop = self.ranks.sum([tgt_tokens, should_stop()])
            self.step += 1
            self.batch += self.batches_per_step
            ends_epoch = self.batch >= len(self.epochs)
            if ends_epoch:
                self.epoch, self.batch = self.epoch + 1, 0
            rate = self.config.schedule.rate(self.step, self.total_steps, self.d_model)
            update = self._update(batches, int(tokens_of_all), rate)
            if update.is_finite:
                summed = (update.loss, update.nll_loss, tgt_tokens)
                self.window = [a + b for a, b in zip(self.window, summed, strict=True)]
            else:
                self._skip(where, update, int(tokens_of_all))
            yield StepResult(
                **vars(update),
                step=self.step,
                epoch=self.epoch,
                learning_rate=rate,
                tgt_tokens=tgt_tokens,
                ends_epoch=ends_epoch,
                micro_batches=self.micro_batches,
                stop=bool(stop),
            )

    def _update(self, batches: list[Batch], tgt_tokens: int, rate: float) -> Update:
        """Update the weights with this rank's batches; all ranks together have ``tgt_tokens``."""
        if not self.model.training:  # ``train`` visits every module, while a GPU has to wait
            self.model.train()
        self.optimizer.prepare()
        losses = self._gradients.accumulate(self.step, batches, tgt_tokens)
        return self.optimizer.step(losses, self.step, rate)

    def _skip(self, where: str, update: Update, tgt_tokens: int) -> None:
        """Count a step with a non-finite loss or gradient; raise TrainingError after too many."""
        if self.skipped >= self.config.skip_nonfinite:
            raise TrainingError(
                f"{where}: the loss is {update.loss_on_all_ranks / tgt_tokens:.4g} and the "
                f"gradient norm is {update.gradient_norm:.4g}; lower the learning rate "
                "(training.schedule) and start again with `overwrite`, or skip such steps with "
                f"training.skip_nonfinite={self.skipped + 10}"
            )
        self.skipped += 1

    def _iter_batches(self) -> Iterator[Batch]:
        """Return an iterator over this rank's batches, from the current one to the last one."""
        on_gpu = self.device.type == "cuda"
        # Pinned memory makes copies to the GPU asynchronous.
        batches = (batch.pin_memory() if on_gpu else batch for batch in self._make_batches())
        return prefetch(batches, _PREFETCHED if on_gpu else 0)

    def _make_batches(self) -> Iterator[Batch]:
        first = self.batch
        for epoch in range(self.epoch, -(-self.total_steps // self.steps_per_epoch)):
            yield from self.epochs.iter_epoch(epoch, first + self.ranks.rank, self.ranks.size)
            first = 0

    def state(self) -> dict[str, Any]:
        """Return the training state, without the weights or the optimizer state."""
        counts = ("step", "epoch", "batch", "skipped", "batches_per_step", "micro_batches")
        return {name: getattr(self, name) for name in (*counts, "window")}

    def restore(self, state: TrainingState, optimizer_state: dict[str, Tensor]) -> None:
        """Restore ``state`` and the optimizer's state; the caller loads ``eval_model``.

        Step, epoch and batch say how far training has come. What they mean depends on the number of
        batches in a step, so this number must be the same as before.
        ``runs.initialize.check_resumable`` has already compared the run's settings.
        """
        self._check_fits(state)
        self.step, self.epoch, self.batch = state.step, state.epoch, state.batch
        self.skipped = state.skipped
        if self.ranks.is_main:  # it has the sums of all ranks, so the others start from zero
            self.window = list(state.window)
        self.optimizer.load_state(optimizer_state, updates=self.step - self.skipped)
        # Keep the number of parts, as splitting a batch changes what dropout draws.
        self._gradients.micro_batches = state.micro_batches
        self._batches = self._iter_batches()

    def _check_fits(self, state: TrainingState) -> None:
        """Raise ConfigError if a step had more or fewer batches, or too many steps were skipped."""
        recorded, ranks = state.batches_per_step, self.ranks.size
        if recorded != self.batches_per_step:
            advice = (
                f"set training.accumulate={recorded // ranks}"
                if recorded % ranks == 0
                else f"use a number of processes that divides {recorded}"
            )
            raise ConfigError(
                f"training.accumulate: {self.config.accumulate} batches x {ranks} process(es) = "
                f"{self.batches_per_step} per step, but the checkpoint was trained with "
                f"{recorded}; {advice}"
            )
        if state.step < self.total_steps and state.skipped > self.config.skip_nonfinite:
            raise ConfigError(
                f"training.skip_nonfinite: {self.config.skip_nonfinite}, but the run has skipped "
                f"{state.skipped} steps already; set it to at least {state.skipped}"
            )
