"""The training loop, as a generator of optimizer steps. It prints nothing and owns no files.

A step, on each rank:

    EpochBatches          seed, epoch, index -> batch; ranks take turns, each has ``accumulate``
        |
    GradientAccumulator   forward, loss and backward of each batch, in micro-batches if memory is
        |                 short; the gradients are summed over the ranks
    Optimizer             norm, clipping, Adam or Muon, the average of the weights
        |
    Trainer               counts step, epoch and batch; sums losses in ``window``; yields the result

``Session`` (session.py) takes the results, and writes records and checkpoints.
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
from transformer_cli.config.schema import Config
from transformer_cli.data.batches import Augmentation, Batch, EpochBatches, prefetch
from transformer_cli.data.shards import ShardedText
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.checkpoint import TrainingState
from transformer_cli.training.loss import GradientAccumulator
from transformer_cli.training.optimizer import Optimizer, Update, last_step

# Batches that a thread makes ahead of a GPU, which computes while the host goes on.
_PREFETCHED = 4


@dataclass(frozen=True, kw_only=True)
class StepResult(Update):
    """Result of one optimizer step."""

    step: int  # counted from 1
    epoch: int  # epochs completed when the step was done
    learning_rate: float
    tgt_tokens: int  # this rank's
    ends_epoch: bool
    micro_batches: int  # number of parts that each batch was split into to fit into memory
    stop: bool  # whether a rank was asked to stop before the step


class Trainer:
    """Trains a model, one optimizer step at a time.

    Batches and dropout are functions of the seed, step, epoch and batch index, so that a resumed
    run ends exactly like an uninterrupted one. A step on two ranks equals one with twice the
    gradient accumulation on one rank.
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
        """Both losses and the target tokens, summed over the steps since the last record."""
        self.epochs = EpochBatches(pairs, self.config.batch_tokens, config.seed, augmentation)
        self.batches_per_step = self.config.accumulate * ranks.size
        self.steps_per_epoch = -(-len(self.epochs) // self.batches_per_step)
        self.total_steps = last_step(self.config, self.steps_per_epoch)
        self._batches = self._iter_batches()

    @property
    def eval_model(self) -> Transformer:
        """The model that is validated and saved: an average of the weights, if there is one."""
        self.optimizer.update_average()
        return self._eval_model

    @property
    def micro_batches(self) -> int:
        """The parts that each batch is split into, so that it fits into memory."""
        return self._gradients.micro_batches

    def steps(self, should_stop: Callable[[], bool] = lambda: False) -> Iterator[StepResult]:
        """Train to the end, yielding the result of each optimizer step, which is in ``window``.

        If any rank's ``should_stop``, called once per step, returns true, ``StepResult.stop`` is
        set; ending the loop is up to the caller. A TrainingError is raised if a loss or a gradient
        is not finite, and no more steps may be skipped; the weights are those before the step.
        """
        while self.step < self.total_steps:
            first, last = self.batch + 1, min(self.batch + self.batches_per_step, len(self.epochs))
            places = f"batch {last}" if first == last else f"batches {first} to {last}"
            where = f"step {self.step + 1} (epoch {self.epoch + 1}, {places})"
            own = range(first + self.ranks.rank, last + 1, self.ranks.size)
            batches = list(islice(self._batches, len(own)))
            tgt_tokens = sum(batch.tgt_tokens for batch in batches)
            counts: list[float] = [tgt_tokens, should_stop()]
            tokens_of_all, stop = self.ranks.sum(counts) if self.ranks.size > 1 else counts
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
        """Update the weights with this rank's batches of a step of ``tgt_tokens`` on all ranks."""
        if not self.model.training:  # it visits every module, and a GPU waits for the host
            self.model.train()
        self.optimizer.prepare()
        losses = self._gradients.accumulate(self.step, batches, tgt_tokens)
        return self.optimizer.step(losses, self.step, rate)

    def _skip(self, where: str, update: Update, tgt_tokens: int) -> None:
        """Count a step that was not finite; raise a ``TrainingError`` if it is one too many."""
        if self.skipped >= self.config.skip_nonfinite:
            raise TrainingError(
                f"{where}: the loss is {update.loss_on_all_ranks / tgt_tokens:.4g} and the "
                f"gradient's norm {update.gradient_norm:.4g}; lower the learning rate "
                "(training.schedule) and start again with `overwrite`, or skip such steps: "
                f"training.skip_nonfinite={self.skipped + 10}"
            )
        self.skipped += 1

    def _iter_batches(self) -> Iterator[Batch]:
        """Iterate over this rank's batches from here to the end of the training."""
        on_gpu = self.device.type == "cuda"
        # Pinned, so that copies to the GPU are asynchronous.
        batches = (batch.pin_memory() if on_gpu else batch for batch in self._make_batches())
        return prefetch(batches, _PREFETCHED if on_gpu else 0)

    def _make_batches(self) -> Iterator[Batch]:
        first = self.batch
        for epoch in range(self.epoch, -(-self.total_steps // self.steps_per_epoch)):
            yield from self.epochs.iter_epoch(epoch, first + self.ranks.rank, self.ranks.size)
            first = 0

    def state(self) -> dict[str, Any]:
        """Return the training state without weights and optimizer state."""
        return {
            "step": self.step,
            "epoch": self.epoch,
            "batch": self.batch,
            "skipped": self.skipped,
            "batches_per_step": self.batches_per_step,
            "micro_batches": self.micro_batches,
            "window": self.window,
        }

    def restore(self, state: TrainingState, optimizer_state: dict[str, Tensor]) -> None:
        """Restore ``state`` and the optimizer's; the caller loads ``eval_model``.

        Three numbers say where the training is: step, epoch and batch. They mean the same only if
        a step has as many batches as before; the run's settings were compared before this
        (``runs.initialize.check_resumable``).
        """
        self._check_fits(state)
        self.step, self.epoch, self.batch = state.step, state.epoch, state.batch
        self.skipped = state.skipped
        if self.ranks.is_main:  # already summed over ranks: others start from zero
            self.window = list(state.window)
        self.optimizer.load_state(optimizer_state, updates=self.step - self.skipped)
        # Splitting a batch changes dropout's draws.
        self._gradients.micro_batches = state.micro_batches
        self._batches = self._iter_batches()

    def _check_fits(self, state: TrainingState) -> None:
        """Raise ``ConfigError`` if a step has another number of batches, or too many failed."""
        recorded, ranks = state.batches_per_step, self.ranks.size
        if recorded != self.batches_per_step:
            advice = (
                f"set training.accumulate={recorded // ranks}"
                if recorded % ranks == 0
                else f"start a number of processes that divides {recorded}"
            )
            raise ConfigError(
                f"training.accumulate: {self.config.accumulate} batches x {ranks} process(es) = "
                f"{self.batches_per_step} per step, but the checkpoint was trained with "
                f"{recorded}; {advice}"
            )
        if state.step < self.total_steps and state.skipped > self.config.skip_nonfinite:
            raise ConfigError(
                f"training.skip_nonfinite: {self.config.skip_nonfinite}, but steps skipped "
                f"so far: {state.skipped}; resume with at least {state.skipped}"
            )
