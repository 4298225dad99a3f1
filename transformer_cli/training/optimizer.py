"""The update of the weights: optimizers and learning rates, a registry of each.

Around every optimizer: clipping, the moving average of the weights, and skipped non-finite steps.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer_cli.base.ranks import Ranks
from transformer_cli.config.schema import NoamSchedule, PeakSchedule, ScheduleConfig, TrainingConfig
from transformer_cli.model.device import GraphPool, graph_stream
from transformer_cli.model.transformer import Transformer, load_weights, weights_of
from transformer_cli.training.execution import Execution
from transformer_cli.training.loss import Losses


class OptimizerKind(NamedTuple):
    """An optimizer that ``training.optimizer`` may name."""

    build: Callable[[list[nn.Parameter], TrainingConfig, bool, bool], torch.optim.Optimizer]
    """Builds it for some weights, given whether it is to be fused, and captured in a graph."""
    state: tuple[str, ...]
    """Its tensors of each weight, as torch calls them; a checkpoint has them by these names."""
    updates: Callable[[str, Tensor], bool]
    """Whether it updates the weight of a name; Adam updates the others."""
    skips_itself: bool  # whether, fused, it reads on the device that a step is not to be taken


def _build_adam(
    weights: list[nn.Parameter], config: TrainingConfig, fused: bool, captured: bool
) -> torch.optim.Optimizer:
    return torch.optim.Adam(
        weights,
        # A graph would keep a number for good.
        lr=torch.zeros((), device=weights[0].device) if captured else 0.0,
        betas=config.betas,
        eps=config.eps,
        fused=fused,
        capturable=captured,
    )


def _build_muon(
    weights: list[nn.Parameter], config: TrainingConfig, fused: bool, captured: bool
) -> torch.optim.Optimizer:
    # Scaled so that updates are as large as Adam's: one schedule serves both (Liu et al. 2025,
    # arXiv 2502.16982). Adam has no weight decay here, so Muon has none.
    return torch.optim.Muon(
        weights,
        lr=0.0,
        weight_decay=0.0,
        momentum=config.muon_momentum,
        adjust_lr_fn="match_rms_adamw",
    )


OPTIMIZERS = {
    "adam": OptimizerKind(
        _build_adam, ("exp_avg", "exp_avg_sq"), lambda name, weight: True, skips_itself=True
    ),
    "muon": OptimizerKind(
        _build_muon,
        ("momentum_buffer",),
        lambda name, weight: weight.ndim == 2 and name.startswith(("encoder.", "decoder.")),
        skips_itself=False,
    ),
}


def kind_of(config: TrainingConfig, name: str, weight: Tensor) -> OptimizerKind:
    """Return the optimizer that updates a weight."""
    chosen = OPTIMIZERS[config.optimizer]
    return chosen if chosen.updates(name, weight) else OPTIMIZERS["adam"]


class _Part(NamedTuple):
    """An optimizer with the weights that it updates, by name."""

    kind: OptimizerKind
    optimizer: torch.optim.Optimizer
    weights: dict[str, nn.Parameter]


class Optimizer:
    """Updates the weights from their gradients, and the moving average from the weights.

    Frozen weights have no gradient, no state, and no average but themselves.

    A step whose loss or gradient is not finite changes nothing, but for rounding where there is
    ``init_share``. That is decided on the device, so that the host need not wait for it; once more
    than ``skip_nonfinite`` steps were skipped, all later ones are skipped too, until the host finds
    out. Of an optimizer that cannot skip itself, the host decides. All ranks skip a step or none.
    ``eval_model`` is the moving average of the model's weights, or the model itself if there is
    none.
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
        trained = {
            name: weight for name, weight in model.named_parameters() if weight.requires_grad
        }
        self._weights = list(trained.values())
        self._trained = [weight.detach() for weight in self._weights]
        averages = weights_of(eval_model) if eval_model is not model else {}
        self._averages = [averages[name] for name in trained if averages]
        self._device = device = self._weights[0].device
        self._skips_itself = execution.fused and OPTIMIZERS[config.optimizer].skips_itself
        # Where batches are replayed as graphs, gradients stay in the same tensors. The update is
        # a graph too, unless the host has to decide about it.
        self._keep_gradients = execution.graphs
        self._can_capture = execution.graphs and self._skips_itself
        self._parts = []
        for kind in OPTIMIZERS.values():
            own = {
                name: weight
                for name, weight in trained.items()
                if kind_of(config, name, weight) is kind
            }
            if own:
                optimizer = kind.build([*own.values()], config, execution.fused, self._can_capture)
                self._parts.append(_Part(kind, optimizer, own))
        self._average_weight = torch.zeros((), device=device)
        self._new_share = None if config.init_share is None else 1.0 - config.init_share
        self._losses = Losses(*torch.zeros(2, device=device))
        self._skipped = torch.zeros((), dtype=torch.int64, device=device)
        self._pool = GraphPool(device)
        self._update = self._update_eagerly
        self._has_updated = False

    def prepare(self) -> None:
        """Allocate what every step needs, so that what does not fit later is a batch."""
        for kind, optimizer, weights in self._parts:
            for weight in weights.values():
                if weight not in optimizer.state:
                    tensors = {name: torch.zeros_like(weight) for name in kind.state}
                    step = torch.zeros((), device=self._device)
                    optimizer.state[weight] = {"step": step, **tensors}
                if self._keep_gradients and weight.grad is None:
                    weight.grad = torch.zeros_like(weight)

    def step(self, losses: Losses, step: int, rate: float) -> Float[Tensor, "5"]:
        """Update the weights unless the loss or the gradient is not finite; zero the gradients.

        Returns, on the device, both losses, which are zero if the step was skipped; whether it was;
        the loss on all ranks; and the gradient's norm.
        """
        for part in self._parts:
            for group in part.optimizer.param_groups:
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
        if not self._can_capture:
            return self._update_eagerly()
        if self._has_updated and self._update == self._update_eagerly:
            self._update = self._pool.capture(self._update_eagerly)
        with graph_stream(self._device):
            results = self._update()
        self._has_updated = True
        return results.clone()  # the next replay writes over the graph's

    def state(self) -> dict[str, Tensor]:
        """Return the state by kind and weight; with a moving average, also the trained weights."""
        self.prepare()
        state = {
            f"{kind}.{name}": part.optimizer.state[weight][kind]
            for part in self._parts
            for kind in part.kind.state
            for name, weight in part.weights.items()
        }
        if self._averages:
            for name, trained in weights_of(self._model).items():
                state[f"weight.{name}"] = trained
        return state

    def load_state(self, state: Mapping[str, Tensor], steps: int, skipped: int) -> None:
        """Restore ``state`` after so many updates and skipped steps.

        Raises:
            KeyError, RuntimeError, CheckpointError: it is the state of another model.
        """
        self.prepare()
        if self._averages:
            names = weights_of(self._model)
            load_weights(self._model, {name: state[f"weight.{name}"] for name in names})
        for part in self._parts:
            for name, weight in part.weights.items():
                own = part.optimizer.state[weight]
                own["step"].fill_(steps)
                for kind in part.kind.state:
                    own[kind].copy_(state[f"{kind}.{name}"].view_as(weight))
        self._skipped.fill_(skipped)

    def _update_eagerly(self) -> Float[Tensor, "5"]:
        """Update the weights; return what ``step`` does."""
        norm = nn.utils.get_total_norm(
            [weight.grad for weight in self._weights if weight.grad is not None]
        )
        total_loss = self._losses.loss
        is_bad = ~(total_loss.isfinite() & norm.isfinite())
        if self._ranks.size > 1:
            count, total = self._ranks.sum([is_bad.item(), total_loss.item()])
            is_bad, total_loss = is_bad.new_tensor(count > 0), total_loss.new_tensor(total)
        self._skipped += is_bad
        skip = is_bad | (self._skipped > self._config.skip_nonfinite)
        if self._config.clip_norm is not None:
            nn.utils.clip_grads_with_norm_(self._weights, self._config.clip_norm, norm)
        if self._new_share is not None:  # what is new of them, taken out and put back updated
            torch._foreach_add_(self._averages, self._trained, alpha=-self._new_share)
        is_skipped = not self._skips_itself and bool(skip)
        for part in self._parts:
            if self._skips_itself:
                # It reads this on the device, and changes nothing where it is 1.
                part.optimizer.found_inf = skip.float()  # type: ignore[attr-defined]
            if not is_skipped:
                part.optimizer.step()
            part.optimizer.zero_grad(set_to_none=not self._keep_gradients)
        if self._new_share is not None:
            torch._foreach_add_(self._averages, self._trained, alpha=self._new_share)
        elif self._averages:
            weight = self._average_weight * ~skip
            torch._foreach_lerp_(self._averages, self._trained, [weight] * len(self._averages))
        losses = (loss.masked_fill(skip, 0.0) for loss in self._losses)
        return torch.stack((*losses, skip.float(), total_loss, norm))


_DECAYS: dict[str, Callable[[int, int, float], float]] = {
    "constant": lambda warmup, step, done: 1.0,
    "inverse_sqrt": lambda warmup, step, done: math.sqrt(warmup / step),
    "linear": lambda warmup, step, done: 1.0 - done,
    "cosine": lambda warmup, step, done: 0.5 * (1.0 + math.cos(math.pi * done)),
}
"""By kind of schedule, the share of the peak after the warm-up. ``done`` is the share of the steps
from there to the last one that is completed."""


def learning_rate(schedule: ScheduleConfig, d_model: int, step: int, total_steps: int) -> float:
    """Return the learning rate of ``step``, counted from 1.

    At ``total_steps``, linear and cosine schedules reach zero.
    """
    if isinstance(schedule, NoamSchedule):  # NoamOpt: Vaswani et al. 2017, equation 3
        scale = schedule.factor / math.sqrt(d_model)
        return scale * min(1.0 / math.sqrt(step), step / math.sqrt(schedule.warmup) ** 3)
    assert isinstance(schedule, PeakSchedule)
    warmup = schedule.warmup
    if step < warmup:
        return schedule.peak * step / warmup
    done = min(1.0, (step - warmup) / max(1, total_steps - warmup))
    return schedule.peak * _DECAYS[schedule.kind](warmup, step, done)


def last_step(training: TrainingConfig, steps_per_epoch: int) -> int:
    """Return the last step of a training."""
    steps = training.epochs * steps_per_epoch
    return min(steps, training.max_steps or steps)


def rate_jump(
    old: TrainingConfig, new: TrainingConfig, d_model: int, step: int, steps_per_epoch: int
) -> tuple[float, float] | None:
    """Return the rates of ``step`` and the next one if a new last step makes the rate jump.

    ``step`` was the last one by the ``old`` settings; the ``new`` ones have the same schedule.
    """
    old_end, new_end = last_step(old, steps_per_epoch), last_step(new, steps_per_epoch)
    if not 0 < step < new_end:
        return None
    planned = learning_rate(new.schedule, d_model, step + 1, old_end)
    now = learning_rate(new.schedule, d_model, step + 1, new_end)
    return None if planned == now else (learning_rate(old.schedule, d_model, step, old_end), now)
