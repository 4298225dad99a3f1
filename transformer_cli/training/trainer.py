"""The training loop, as a generator of optimizer steps. It prints nothing and owns no files."""

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from transformer_cli.config.schema import Config
from transformer_cli.data.batches import Batch
from transformer_cli.data.epochs import EpochBatches, EpochSample, SubwordSampler
from transformer_cli.data.shards import ShardedText
from transformer_cli.errors import ConfigError, TrainingError
from transformer_cli.model.transformer import Transformer
from transformer_cli.model.weights import load_weights, weights_of
from transformer_cli.ranks import ALONE, Ranks
from transformer_cli.training.gradients import Gradients
from transformer_cli.training.loss import Losses
from transformer_cli.training.schedule import last_step, learning_rate


@dataclass(frozen=True)
class StepResult:
    """Result of one optimizer step. Losses stay on the device until they are read."""

    step: int
    """Counted from 1."""
    epoch: int
    """Epochs completed when the step was done."""
    learning_rate: float
    losses: Losses
    """Summed over this rank's target tokens."""
    tgt_tokens: int
    """This rank's target tokens of the step."""
    ends_epoch: bool
    skipped: bool = False
    """Whether its loss or gradient was not finite; the losses are zero then."""
    chunks: int = 1
    """Number of chunks that each batch was split into to fit into memory."""
    stop: bool = False
    """Whether a rank was asked to stop before the step."""


class Trainer:
    """Trains a model, one optimizer step at a time.

    Batches and dropout are functions of the seed, step, epoch and batch index, so that a resumed
    run equals an uninterrupted one. A step on two ranks equals one with twice the gradient
    accumulation on one rank.

    Args:
        model: the model to train, on its device.
        pairs: the training pairs.
        config: the experiment's settings.
        precision: compute dtype.
        subword_sampler: see ``EpochBatches``.
        ranks: the processes that share the work; a step takes ``accumulate`` batches on each.
        use_graphs: replay CUDA graphs where the device has them.
    """

    def __init__(
        self,
        model: Transformer,
        pairs: ShardedText,
        config: Config,
        precision: torch.dtype,
        subword_sampler: SubwordSampler | None = None,
        ranks: Ranks = ALONE,
        use_graphs: bool = True,
    ) -> None:
        self.model = model
        self.use_graphs = use_graphs
        self.ranks = ranks
        self.precision = precision
        self._arguments = (pairs, config, precision, subword_sampler)
        # The model that is validated and saved: the EMA of the weights, if there is one.
        has_ema = config.training.average_decay is not None
        self.eval_model = copy.deepcopy(model).requires_grad_(False) if has_ema else model
        self.config = config.training
        self.d_model = config.model.d_model
        self.device = next(model.parameters()).device
        self._weights = list(model.parameters())
        self.optimizer = torch.optim.Adam(
            self._weights, lr=0.0, betas=self.config.betas, eps=self.config.eps, fused=True
        )
        self._gradients = Gradients(model, self.config, precision, config.seed, ranks)
        self.step = 0
        self.epoch = 0
        self.batch = 0
        self.skipped = 0
        self._epochs = EpochBatches(pairs, self.config.batch_tokens, config.seed, subword_sampler)
        self._batches = self._own_batches()
        self.batches_per_step = self.config.accumulate * ranks.size
        self.steps_per_epoch = -(-len(self._epochs) // self.batches_per_step)
        self.total_steps = last_step(self.config, self.steps_per_epoch)

    def steps(self, should_stop: Callable[[], bool] = lambda: False) -> Iterator[StepResult]:
        """Train to the end, yielding the result of each optimizer step.

        When a result is yielded, the trainer is in the state after that step: the caller may save
        it, or validate ``eval_model``.

        Args:
            should_stop: called once per step. If any rank's returns true, ``StepResult.stop`` is
                set; ending the loop is up to the caller.

        Raises:
            TrainingError: a loss or a gradient is not finite, and no more steps may be skipped.
                The weights are those before the step.
        """
        while self.step < self.total_steps:
            batches = [
                batch.to(self.device) for batch in islice(self._batches, self.config.accumulate)
            ]
            where = self._describe_next_step()
            self.step += 1
            self.batch += self.batches_per_step
            ends_epoch = self.batch >= len(self._epochs)
            if ends_epoch:
                self.epoch, self.batch = self.epoch + 1, 0
                self._batches = self._own_batches()
            yield self._update(batches, where, ends_epoch, should_stop)

    def copy_for_trial(self) -> "Trainer":
        """Return a trainer of one process with a copy of the weights, for trial steps."""
        trial = Trainer(copy.deepcopy(self.model), *self._arguments)
        trial.step = 1  # schedules are defined from step 1
        return trial

    def try_step(self, batches: list[Batch]) -> None:
        """Update the weights with ``batches``; step, epoch and batch index stay.

        Raises:
            TrainingError: a loss or a gradient is not finite.
        """
        batches = [batch.to(self.device) for batch in batches]
        self._update(batches, "trial step", False, lambda: False)

    def sample(self, count: int) -> EpochSample:
        """Return an epoch's statistics on all ranks, and at most ``count`` of its batches."""
        return self._epochs.sample(count)

    def state(self) -> dict[str, Any]:
        """Return the training state without weights and optimizer state."""
        return {
            "step": self.step,
            "epoch": self.epoch,
            "batch": self.batch,
            "skipped": self.skipped,
            "batches_a_step": self.batches_per_step,
        }

    def optimizer_state(self) -> dict[str, Tensor]:
        """Return Adam's moments by kind and weight; with an EMA, also the trained weights."""
        moments = {
            f"{kind}.{name}": self.optimizer.state[weight][kind]
            for kind in ("exp_avg", "exp_avg_sq")
            for name, weight in self.model.named_parameters()
        }
        if self.eval_model is not self.model:
            for name, weight in weights_of(self.model).items():
                moments[f"weight.{name}"] = weight
        return moments

    def restore(self, state: dict[str, Any], optimizer_state: dict[str, Tensor]) -> None:
        """Restore ``state`` and ``optimizer_state``; the caller loads ``eval_model``.

        Raises:
            ConfigError: the number of batches per step has changed.
        """
        # Not in format 1, whose runs had one process and may not change ``accumulate``
        # (runs/resuming.py).
        recorded = state.get("batches_a_step", self.config.accumulate)
        if recorded != self.batches_per_step:
            ranks = self.ranks.size
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
        if self.eval_model is not self.model:
            names = weights_of(self.model)
            load_weights(self.model, {name: optimizer_state[f"weight.{name}"] for name in names})
        self.step, self.epoch, self.batch = state["step"], state["epoch"], state["batch"]
        self.skipped = state.get("skipped", 0)
        self._batches = self._own_batches()
        step = torch.tensor(float(self.step - self.skipped), device=self.device)
        for name, weight in self.model.named_parameters():
            self.optimizer.state[weight] = {"step": step.clone()} | {
                kind: optimizer_state[f"{kind}.{name}"].view_as(weight).to(self.device)
                for kind in ("exp_avg", "exp_avg_sq")
            }

    def _describe_next_step(self) -> str:
        """Return the next step and its batches for a message, counted from 1."""
        first = self.batch + 1
        last = min(self.batch + self.batches_per_step, len(self._epochs))
        batches = f"batch {last}" if first == last else f"batches {first} to {last}"
        return f"step {self.step + 1} (epoch {self.epoch + 1}, {batches})"

    def _own_batches(self) -> Iterator[Batch]:
        """Iterate over this rank's batches from here to the end of the epoch."""
        return self._epochs.iter_epoch(self.epoch, self.batch + self.ranks.rank, self.ranks.size)

    def _update(
        self,
        batches: list[Batch],
        where: str,
        ends_epoch: bool,
        should_stop: Callable[[], bool],
    ) -> StepResult:
        own_tokens = sum(batch.tgt_tokens for batch in batches)
        tgt_tokens, stop = self.ranks.sum([own_tokens, should_stop()])
        self.model.train()
        losses = self._gradients.accumulate(self.step, batches, int(tgt_tokens))
        rate = learning_rate(self.config.schedule, self.d_model, self.step, self.total_steps)
        norm = nn.utils.get_total_norm(
            [each.grad for each in self._weights if each.grad is not None]
        )
        skipped = self._count_if_nonfinite(losses, norm, tgt_tokens, where)
        if skipped:
            losses, own_tokens = Losses(*map(torch.zeros_like, losses)), 0
        else:
            self._apply_gradients(rate, norm)
        self.optimizer.zero_grad()
        return StepResult(
            step=self.step,
            epoch=self.epoch,
            learning_rate=rate,
            losses=losses,
            tgt_tokens=own_tokens,
            ends_epoch=ends_epoch,
            skipped=skipped,
            chunks=self._gradients.chunks,
            stop=bool(stop),
        )

    def _count_if_nonfinite(
        self, losses: Losses, norm: Tensor, tgt_tokens: float, where: str
    ) -> bool:
        """Return whether a rank's loss, or the gradient, is not finite; count the skipped step.

        Raises:
            TrainingError: it is, and no more steps may be skipped.
        """
        loss, grad_norm = torch.stack([losses.loss, norm]).tolist()
        bad, total_loss = self.ranks.sum([not math.isfinite(loss + grad_norm), loss])
        if not bad:
            return False
        if self.skipped >= self.config.skip_nonfinite:
            raise TrainingError(
                f"{where}: the loss is {total_loss / tgt_tokens:.4g} and the gradient's norm "
                f"{grad_norm:.4g}; "
                "lower the learning rate (training.schedule) and start again with --overwrite, or "
                f"skip such steps: --set training.skip_nonfinite={self.skipped + 10}"
            )
        self.skipped += 1
        return True

    def _apply_gradients(self, rate: float, norm: Tensor) -> None:
        if self.config.clip_norm is not None:
            nn.utils.clip_grads_with_norm_(self._weights, self.config.clip_norm, norm)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        if self.config.average_decay is not None:
            self._update_ema(self.config.average_decay)

    def _update_ema(self, decay: float) -> None:
        # Early on, a lower decay, so that the initial weights are forgotten.
        decay = min(decay, (1 + self.step) / (10 + self.step))
        trained = weights_of(self.model)
        for name, average in weights_of(self.eval_model).items():
            average.lerp_(trained[name], 1.0 - decay)
