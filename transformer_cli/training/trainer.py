"""The training loop, as a generator of optimizer steps. It prints nothing and owns no files."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from transformer_cli.config.schema import Config
from transformer_cli.data.batches import Batch
from transformer_cli.data.windows import EpochBatches, Resegment, WindowedText
from transformer_cli.model.device import autocast
from transformer_cli.model.transformer import Transformer
from transformer_cli.model.weights import load_weights, weights_of
from transformer_cli.training.loss import label_smoothed_loss
from transformer_cli.training.schedule import learning_rate


@dataclass(frozen=True)
class Progress:
    """What one optimizer step did. The sums stay on the device until somebody asks for them."""

    step: int
    """Counted from 1."""
    epoch: int
    """Epochs completed when the step was done."""
    learning_rate: float
    smoothed: Tensor
    """Label-smoothed loss, summed over target tokens."""
    unsmoothed: Tensor
    """Negative log-likelihood, summed over target tokens."""
    tgt_tokens: int
    """Target tokens of the step."""
    ends_epoch: bool


class Trainer:
    """Takes a model from step to step.

    Where training stands is three numbers (step, epoch, batch of the epoch) beside weights and
    moments: batches and dropout are functions of them and of the seed, so that a resumed run and an
    uninterrupted one are the same.

    Args:
        model: the model to train, on its device.
        text: what to train on.
        config: the experiment's settings.
        precision: type of the matrix products.
        resegment: see ``EpochBatches``.
    """

    def __init__(
        self,
        model: Transformer,
        text: WindowedText,
        config: Config,
        precision: torch.dtype,
        resegment: Resegment | None = None,
    ) -> None:
        self.model = model
        # What is validated and kept: the moving average of the weights, if there is one.
        averaging = config.training.average_decay is not None
        self.kept = copy.deepcopy(model).requires_grad_(False) if averaging else model
        self.seed = config.seed
        self.config = config.training
        self.d_model = config.model.d_model
        self.precision = precision
        self.device = next(model.parameters()).device
        self.optimizer = torch.optim.Adam(
            model.parameters(), lr=0.0, betas=self.config.betas, eps=self.config.eps, fused=True
        )
        self.step = 0
        self.epoch = 0
        self.batch = 0
        self._epochs = EpochBatches(text, self.config.batch_tokens, self.seed, resegment)
        self._batches = self._epochs.of_epoch(self.epoch)
        self.steps_per_epoch = -(-len(self._epochs) // self.config.accumulate)
        epochs_steps = self.config.epochs * self.steps_per_epoch
        self.total_steps = min(epochs_steps, self.config.max_steps or epochs_steps)

    def steps(self) -> Iterator[Progress]:
        """Train to the end, giving one value an optimizer step.

        Between two values the trainer's state is that of the step just done: the caller may save
        it, or validate what is ``kept``.
        """
        while self.step < self.total_steps:
            batches = [
                batch.to(self.device) for batch in islice(self._batches, self.config.accumulate)
            ]
            self.step += 1
            self.batch += len(batches)
            ends_epoch = self.batch >= len(self._epochs)
            if ends_epoch:
                self.epoch, self.batch = self.epoch + 1, 0
                self._batches = self._epochs.of_epoch(self.epoch)
            yield self._update(batches, ends_epoch)

    def state(self) -> dict[str, Any]:
        """Where training stands, beside weights and moments."""
        return {"step": self.step, "epoch": self.epoch, "batch": self.batch}

    def moments(self) -> dict[str, Tensor]:
        """Adam's running averages, by their kind and their weight's name.

        With them, where ``kept`` is an average, the weights that are trained.
        """
        moments = {
            f"{kind}.{name}": self.optimizer.state[weight][kind]
            for kind in ("exp_avg", "exp_avg_sq")
            for name, weight in self.model.named_parameters()
        }
        if self.kept is not self.model:
            for name, weight in weights_of(self.model).items():
                moments[f"weight.{name}"] = weight
        return moments

    def restore(self, state: dict[str, Any], moments: dict[str, Tensor]) -> None:
        """Go on from where ``state`` and ``moments`` were taken; the caller loads ``kept``."""
        if self.kept is not self.model:
            names = weights_of(self.model)
            load_weights(self.model, {name: moments[f"weight.{name}"] for name in names})
        self.step, self.epoch, self.batch = state["step"], state["epoch"], state["batch"]
        self._batches = self._epochs.of_epoch(self.epoch, self.batch)
        for name, weight in self.model.named_parameters():
            self.optimizer.state[weight] = {
                "step": torch.tensor(float(self.step), device=self.device),
                "exp_avg": moments[f"exp_avg.{name}"].to(self.device),
                "exp_avg_sq": moments[f"exp_avg_sq.{name}"].to(self.device),
            }

    def _update(self, batches: list[Batch], ends_epoch: bool) -> Progress:
        # Dropout's draws depend on the seed and the step alone, not on what happened before. They
        # are mixed into 32 bits, as torch's CPU generator takes no notice of the others.
        torch.manual_seed(int(np.random.SeedSequence([self.seed, self.step]).generate_state(1)[0]))
        self.model.train()
        # Of the whole step, however it is cut up: gradients do not depend on the cut.
        tgt_tokens = sum(batch.tgt_tokens for batch in batches)
        smoothed = torch.zeros((), device=self.device)
        unsmoothed = torch.zeros((), device=self.device)
        for batch in batches:
            with autocast(self.device, self.precision):
                # Read twice, a batch meets two sets of dropped units.
                readings = 2 if self.config.consistency else 1
                losses = label_smoothed_loss(
                    self.model.features(
                        batch.src.repeat(readings, 1), batch.tgt_in.repeat(readings, 1)
                    ),
                    self.model.output,
                    batch.tgt_out,
                    self.model.pad_id,
                    self.config.label_smoothing,
                    self.config.consistency,
                )
            (losses.smoothed / tgt_tokens).backward()  # type: ignore[no-untyped-call]
            smoothed += losses.smoothed.detach()
            unsmoothed += losses.unsmoothed
        rate = learning_rate(self.config.schedule, self.d_model, self.step, self.total_steps)
        self._apply_gradients(rate)
        return Progress(self.step, self.epoch, rate, smoothed, unsmoothed, tgt_tokens, ends_epoch)

    def _apply_gradients(self, rate: float) -> None:
        if self.config.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.config.average_decay is not None:
            self._average(self.config.average_decay)

    def _average(self, decay: float) -> None:
        # Early on, over fewer steps: the first weights are not worth remembering.
        decay = min(decay, (1 + self.step) / (10 + self.step))
        trained = weights_of(self.model)
        for name, average in weights_of(self.kept).items():
            average.lerp_(trained[name], 1.0 - decay)
