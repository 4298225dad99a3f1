"""Dropout that does not dominate a training step on a CPU."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

_LEVELS = 1 << 16


class Dropout(nn.Module):
    """Zero each element with probability ``p`` in training and scale the rest by 1 / (1 - p).

    On a CPU torch draws one Bernoulli variable per element, which costs a quarter of a training
    step. Here four elements share one 64-bit draw, 16 bits each, so ``p`` is rounded to a multiple
    of 2^-16 and the scale follows the rounded value: the expectation stays exact.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Drop elements of ``x`` in training; return ``x`` itself otherwise."""
        if not self.training or self.p == 0.0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        dropped_levels = round(self.p * _LEVELS)
        draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        levels = draws.view(torch.int16)[: x.numel()].view(x.shape)
        # A mask of the dtype of ``x``: torch multiplies by booleans slowly.
        keep = torch.ge(levels, dropped_levels - _LEVELS // 2, out=torch.empty_like(x))
        return (x * keep).mul_(_LEVELS / (_LEVELS - dropped_levels))

    def extra_repr(self) -> str:
        """Return what ``repr`` shows."""
        return f"p={self.p}"
