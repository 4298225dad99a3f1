"""Average the current weights with the weights that training started from."""

from collections.abc import Mapping

import torch
from torch import Tensor

from transformer_cli.base.ranks import Ranks
from transformer_cli.config.schema import TrainingConfig
from transformer_cli.model.transformer import Transformer
from transformer_cli.training.optimizer import Optimizer


class InitialShare(Optimizer):
    """An optimizer that averages trained with initial weights, whose share is ``init_share``."""

    def __init__(
        self, model: Transformer, eval_model: Transformer, config: TrainingConfig, ranks: Ranks
    ) -> None:
        super().__init__(model, eval_model, config, ranks)
        self._share: float = vars(config)["init_share"]
        self._initial = {name: each.clone() for name, each in self._trained.items()}

    def update_average(self) -> None:
        torch._foreach_copy_(self._averages, [*self._initial.values()])
        torch._foreach_lerp_(self._averages, [*self._trained.values()], 1.0 - self._share)

    def state(self) -> dict[str, Tensor]:
        return super().state() | {f"initial.{name}": each for name, each in self._initial.items()}

    def load_state(self, state: Mapping[str, Tensor], updates: int) -> None:
        super().load_state(state, updates)
        for name, initial in self._initial.items():
            initial.copy_(state[f"initial.{name}"])
