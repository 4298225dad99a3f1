"""Adam's step, with clipping, the moving average of the weights, and skipped non-finite steps."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from transformer_cli.config.schema import TrainingConfig
from transformer_cli.model.graphs import GraphPool, graph_stream
from transformer_cli.model.transformer import Transformer, load_weights, weights_of
from transformer_cli.ranks import Ranks
from transformer_cli.training.execution import Execution
from transformer_cli.training.loss import Losses

_MOMENTS = ("exp_avg", "exp_avg_sq")


class UpdateResult(NamedTuple):
    """What became of a step, on the device."""

    losses: Losses
    """Those of the step; zero if it was skipped."""
    is_finite: Bool[Tensor, ""]
    """Whether the weights were updated."""
    report: Float[Tensor, "3"]
    """Whether the step was skipped, the loss on all ranks, and the gradient's norm."""


class Optimizer:
    """Updates the weights from their gradients, and the moving average from the weights.

    Frozen weights have no gradient, no moments, and no average but themselves.

    A step whose loss or gradient is not finite changes nothing. That is decided on the device, so
    that the host need not wait for it; once more than ``skip_nonfinite`` steps were skipped, all
    later ones are skipped too, until the host finds out.

    Args:
        model: the model that is trained.
        eval_model: the moving average of its weights; ``model`` itself if there is none.
        config: settings of the updates.
        ranks: the processes that share the work; a step is skipped by all or by none.
        execution: how to execute steps on the model's device.
    """

    def __init__(
        self,
        model: Transformer,
        eval_model: Transformer,
        config: TrainingConfig,
        ranks: Ranks,
        execution: Execution,
    ) -> None:
        self._model = model
        self._config = config
        self._ranks = ranks
        self._use_graphs = use_graphs = execution.graphs
        self._fused = execution.fused
        self._named_weights = {
            name: weight for name, weight in model.named_parameters() if weight.requires_grad
        }
        self._weights = list(self._named_weights.values())
        self._trained = [weight.detach() for weight in self._weights]
        averages = weights_of(eval_model) if eval_model is not model else {}
        self._averages = [averages[name] for name in self._named_weights if averages]
        self._device = device = self._weights[0].device
        self.adam = torch.optim.Adam(
            self._weights,
            # A graph would keep a number for good.
            lr=torch.zeros((), device=device) if use_graphs else 0.0,
            betas=config.betas,
            eps=config.eps,
            fused=self._fused,
            capturable=use_graphs,
        )
        self._average_weight = torch.zeros((), device=device)
        self._losses = Losses(*torch.zeros(2, device=device))
        self._skipped = torch.zeros((), dtype=torch.int64, device=device)
        self._pool = GraphPool(device)
        self._update = self._update_eagerly
        self._has_updated = False

    def prepare(self) -> None:
        """Allocate what every step needs, so that what does not fit later is a batch."""
        for weight in self._weights:
            if weight not in self.adam.state:
                moments = {kind: torch.zeros_like(weight) for kind in _MOMENTS}
                step = torch.zeros((), device=self._device)
                self.adam.state[weight] = {"step": step, **moments}
            if self._use_graphs and weight.grad is None:
                weight.grad = torch.zeros_like(weight)

    def step(self, losses: Losses, step: int, rate: float) -> UpdateResult:
        """Update the weights unless the loss or the gradient is not finite; zero the gradients.

        Args:
            losses: of the step on this rank.
            step: counted from 1.
            rate: learning rate.
        """
        for group in self.adam.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        if self._config.ema_decay is not None:
            # Early on, a lower decay, so that the initial weights are forgotten.
            decay = min(self._config.ema_decay, (1 + step) / (10 + step))
            self._average_weight.fill_(1.0 - decay)
        for own, loss in zip(self._losses, losses, strict=True):
            own.copy_(loss)
        if self._use_graphs and self._has_updated and self._update == self._update_eagerly:
            self._update = self._pool.capture(self._update_eagerly)
        with graph_stream(self._device):
            results = self._update()
        self._has_updated = True
        # A copy: the next replay writes over the graph's.
        loss, nll_loss, *report = results.clone().unbind()
        return UpdateResult(Losses(loss, nll_loss), report[0] == 0, torch.stack(report))

    def state(self) -> dict[str, Tensor]:
        """Return Adam's moments by kind and weight; with an average, also the trained weights."""
        self.prepare()
        moments = {
            f"{kind}.{name}": self.adam.state[weight][kind]
            for kind in _MOMENTS
            for name, weight in self._named_weights.items()
        }
        if self._averages:
            for name, weight in weights_of(self._model).items():
                moments[f"weight.{name}"] = weight
        return moments

    def load_state(self, state: Mapping[str, Tensor], steps: int, skipped: int) -> None:
        """Restore ``state`` after so many updates and skipped steps.

        Raises:
            KeyError, RuntimeError, CheckpointError: it is the state of another model.
        """
        self.prepare()
        if self._averages:
            names = weights_of(self._model)
            load_weights(self._model, {name: state[f"weight.{name}"] for name in names})
        for name, weight in self._named_weights.items():
            own = self.adam.state[weight]
            own["step"].fill_(steps)
            for kind in _MOMENTS:
                own[kind].copy_(state[f"{kind}.{name}"].view_as(weight))
        self._skipped.fill_(skipped)

    def _update_eagerly(self) -> Float[Tensor, "5"]:
        """Update; return both losses, and the report of ``UpdateResult``."""
        norm = nn.utils.get_total_norm(
            [each.grad for each in self._weights if each.grad is not None]
        )
        is_bad, total_loss = self._find_nonfinite(norm)
        self._skipped += is_bad
        skip = is_bad | (self._skipped > self._config.skip_nonfinite)
        if self._config.clip_norm is not None:
            nn.utils.clip_grads_with_norm_(self._weights, self._config.clip_norm, norm)
        if self._fused:
            # It reads this on the device, and changes nothing where it is 1.
            self.adam.found_inf = skip.float()  # type: ignore[attr-defined]
        if self._fused or not skip:
            self.adam.step()
        if self._averages:
            weight = self._average_weight * ~skip
            torch._foreach_lerp_(self._averages, self._trained, [weight] * len(self._averages))
        self.adam.zero_grad(set_to_none=not self._use_graphs)
        losses = (loss.masked_fill(skip, 0.0) for loss in self._losses)
        return torch.stack((*losses, skip.float(), total_loss, norm))

    def _find_nonfinite(self, norm: Tensor) -> tuple[Tensor, Tensor]:
        """Return whether a rank's loss, or the gradient, is not finite, and the total loss."""
        loss = self._losses.loss
        is_bad = ~(loss.isfinite() & norm.isfinite())
        if self._ranks.size == 1:
            return is_bad, loss
        count, total = self._ranks.sum([is_bad.item(), loss.item()])
        return torch.full_like(is_bad, count > 0), torch.full_like(loss, total)
