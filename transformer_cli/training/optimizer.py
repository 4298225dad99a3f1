"""The update of the weights, and the optimizers that ``training.optimizer`` can name.

Every optimizer gets gradient clipping, an average of the weights, and skipping of non-finite steps.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from transformer_cli.base.ranks import Ranks
from transformer_cli.config.schema import TrainingConfig
from transformer_cli.model.transformer import Transformer, load_weights, weights_of
from transformer_cli.training.loss import Losses


class OptimizerKind(NamedTuple):
    """A kind of optimizer that ``training.optimizer`` can name."""

    build: Callable[[list[nn.Parameter], TrainingConfig], torch.optim.Optimizer]
    """A function that builds an optimizer; ``Optimizer.step`` sets its learning rate."""
    state: tuple[str, ...]
    """The names, in torch and in checkpoints, of the tensors that it keeps for each weight."""
    updates: Callable[[str, Tensor], bool] = lambda name, weight: True
    """A function (name, weight) -> whether to update this weight; Adam updates the others."""


def _build_adam(weights: list[nn.Parameter], config: TrainingConfig) -> torch.optim.Optimizer:
    return torch.optim.Adam(weights, lr=0.0, betas=config.betas, eps=config.eps, fused=True)


def _build_muon(weights: list[nn.Parameter], config: TrainingConfig) -> torch.optim.Optimizer:
    # Updates are scaled to be as large as Adam's, so one schedule works for both (Liu et al. 2025,
    # arXiv 2502.16982). Adam has no weight decay here, so Muon has none either.
    return torch.optim.Muon(
        weights,
        lr=0.0,
        weight_decay=0.0,
        momentum=config.muon_momentum,
        adjust_lr_fn="match_rms_adamw",
    )


OPTIMIZERS = {
    "adam": OptimizerKind(_build_adam, ("exp_avg", "exp_avg_sq")),
    "muon": OptimizerKind(
        _build_muon,
        ("momentum_buffer",),
        lambda name, weight: weight.ndim == 2 and name.startswith(("encoder.", "decoder.")),
    ),
}


def kind_of(config: TrainingConfig, name: str, weight: Tensor) -> OptimizerKind:
    """Return the kind of optimizer that updates a weight."""
    chosen = OPTIMIZERS[config.optimizer]
    return chosen if chosen.updates(name, weight) else OPTIMIZERS["adam"]


class _Part(NamedTuple):
    """An optimizer, and the weights that it updates, keyed by name."""

    kind: OptimizerKind
    optimizer: torch.optim.Optimizer
    weights: dict[str, nn.Parameter]


@dataclass(frozen=True)
class Update:
    """The result of an update: this rank's losses, and whether the weights have changed."""

    loss: float  # the loss that training minimises, summed over target tokens
    nll_loss: float  # negative log-likelihood, summed over target tokens
    loss_on_all_ranks: float
    gradient_norm: float  # before clipping
    is_finite: bool
    """Whether loss and gradient are finite on all ranks. If not, no weight has changed, and this
    rank's losses count as zero."""


class Optimizer:
    """An optimizer that updates the weights from gradients, and then the average of the weights.

    ``eval_model`` holds the average; without an average, it is the model itself. This class has a
    moving average (``ema_decay``); extensions may add subclasses with other averages as
    ``average`` entries. Frozen weights have no gradient and no state, and are their own average.
    """

    def __init__(
        self, model: Transformer, eval_model: Transformer, config: TrainingConfig, ranks: Ranks
    ) -> None:
        self._model = model
        self._config = config
        self._ranks = ranks
        trained = {
            name: weight for name, weight in model.named_parameters() if weight.requires_grad
        }
        self._weights = list(trained.values())
        self._trained = {name: weight.detach() for name, weight in trained.items()}
        averages = weights_of(eval_model) if config.has_average else {}
        self._averages = [averages[name] for name in trained if averages]
        by_kind: dict[OptimizerKind, dict[str, nn.Parameter]] = {}
        for name, weight in trained.items():
            by_kind.setdefault(kind_of(config, name, weight), {})[name] = weight
        self._parts = [
            _Part(kind, kind.build([*own.values()], config), own) for kind, own in by_kind.items()
        ]

    def prepare(self) -> None:
        """Allocate the optimizer state now, so that a later lack of memory is due to a batch."""
        for kind, optimizer, weights in self._parts:
            for weight in weights.values():
                if weight not in optimizer.state:
                    tensors = {name: torch.zeros_like(weight) for name in kind.state}
                    step = torch.zeros((), device=weight.device)
                    optimizer.state[weight] = {"step": step, **tensors}

    def step(self, losses: Losses, step: int, rate: float) -> Update:
        """Update the weights with the learning rate ``rate``, and zero the gradients.

        If the loss or the gradient is not finite on any rank, no rank updates anything.
        """
        gradients = [weight.grad for weight in self._weights if weight.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        # This is the only place in a step where the CPU waits for a GPU.
        loss, nll_loss, gradient_norm = torch.stack((*losses, norm)).tolist()
        is_finite_here = math.isfinite(loss) and math.isfinite(gradient_norm)
        not_finite, loss_on_all_ranks = self._ranks.sum([not is_finite_here, loss])
        is_finite = not not_finite
        if is_finite:
            if self._config.clip_norm is not None:
                nn.utils.clip_grads_with_norm_(self._weights, self._config.clip_norm, norm)
            for part in self._parts:
                for group in part.optimizer.param_groups:
                    group["lr"] = rate
                part.optimizer.step()
            if self._config.ema_decay is not None:
                # The decay is lower at first, so that the initial weights lose their influence.
                decay = min(self._config.ema_decay, (1 + step) / (10 + step))
                torch._foreach_lerp_(self._averages, [*self._trained.values()], 1.0 - decay)
        for part in self._parts:
            part.optimizer.zero_grad()
        if not is_finite:
            loss = nll_loss = 0.0
        return Update(loss, nll_loss, loss_on_all_ranks, gradient_norm, is_finite)

    def update_average(self) -> None:
        """Bring the average up to date before it is read; in this class, each step does that."""

    def state(self) -> dict[str, Tensor]:
        """Return the state tensors, keyed by tensor and weight name, for example 'exp_avg.WEIGHT'.

        If checkpoints have averaged weights, the state also has the trained weights.
        """
        self.prepare()
        state = {
            f"{kind}.{name}": part.optimizer.state[weight][kind]
            for part in self._parts
            for kind in part.kind.state
            for name, weight in part.weights.items()
        }
        if self._averages:
            state |= {f"weight.{name}": each for name, each in weights_of(self._model).items()}
        return state

    def load_state(self, state: Mapping[str, Tensor], updates: int) -> None:
        """Restore ``state``, which was saved after this number of ``updates``.

        Raises:
            KeyError, RuntimeError, CheckpointError: the state belongs to another model.
        """
        self.prepare()
        if self._averages:
            names = weights_of(self._model)
            load_weights(self._model, {name: state[f"weight.{name}"] for name in names})
        for part in self._parts:
            for name, weight in part.weights.items():
                own = part.optimizer.state[weight]
                own["step"].fill_(updates)
                for kind in part.kind.state:
                    own[kind].copy_(state[f"{kind}.{name}"].view_as(weight))


def last_step(training: TrainingConfig, steps_per_epoch: int) -> int:
    """Return the number of the last training step."""
    steps = training.epochs * steps_per_epoch
    return min(steps, training.max_steps or steps)
