"""Token and position embeddings (Vaswani et al. 2017, sections 3.4 and 3.5)."""

import math
import sys

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.dropout import Dropout


def sinusoids(length: int, d_model: int) -> Float[Tensor, "length d_model"]:
    """Return PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos(the same)."""
    positions = torch.arange(length, dtype=torch.float64)[:, None]
    rates = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angles = positions * rates
    # (length, d_model / 2, 2) flattened: sine and cosine alternate.
    return torch.stack((angles.sin(), angles.cos()), dim=2).flatten(1).float()


class SinusoidalPositions(nn.Module):
    """Sinusoidal encodings in a table that grows with the longest input."""

    table: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.max_positions = sys.maxsize
        self.register_buffer("table", sinusoids(256, d_model), persistent=False)
        self._replaced: list[Tensor] = []

    def forward(self, start: int, length: int) -> Float[Tensor, "length d_model"]:
        """Return the encodings of positions ``start`` to ``start + length - 1``."""
        end = start + length
        table = self.table  # another thread may replace it
        if end > table.size(0):
            # CUDA graphs go on reading the table that they were captured with.
            self._replaced.append(table)
            # Twice the need, so that decoding does not regrow it at every step.
            table = self.table = sinusoids(2 * end, self.d_model).to(table)
        return table[start:end]


class LearnedPositions(nn.Module):
    """Learned position embeddings up to a maximum length, which callers must respect."""

    def __init__(self, max_positions: int, d_model: int) -> None:
        super().__init__()
        self.max_positions = max_positions
        self.table = nn.Parameter(torch.empty(max_positions, d_model))
        nn.init.normal_(self.table, std=d_model**-0.5)

    def forward(self, start: int, length: int) -> Float[Tensor, "length d_model"]:
        """Return the embeddings of positions ``start`` to ``start + length - 1``.

        Raises:
            ValueError: the table ends before that.
        """
        if start + length > self.table.size(0):
            raise ValueError(
                f"{start + length} positions, but learned positions end at {self.table.size(0)}"
            )
        return self.table[start : start + length]


class Embedding(nn.Module):
    """Token vectors times sqrt(d_model), plus positions, with dropout.

    Args:
        config: sizes, kind of positions, dropout.
        vocab_size: number of token ids.
    """

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__()
        self.scale = math.sqrt(config.d_model)
        self.tokens = nn.Embedding(vocab_size, config.d_model)
        self.positions: SinusoidalPositions | LearnedPositions = (
            SinusoidalPositions(config.d_model)
            if config.positions == "sinusoidal"
            else LearnedPositions(config.max_positions, config.d_model)
        )
        self.dropout = Dropout(config.dropout)

    def forward(
        self, ids: Int[Tensor, "batch position"]
    ) -> Float[Tensor, "batch position d_model"]:
        """Embed rows of ``ids`` that begin at position 0."""
        return self.add_positions(ids, self.positions(0, ids.size(1)))

    def at(
        self, ids: Int[Tensor, "batch hypothesis"], position: int
    ) -> Float[Tensor, "batch hypothesis d_model"]:
        """Embed ``ids`` that are all at ``position``."""
        return self.add_positions(ids, self.positions(position, 1))

    def add_positions(
        self, ids: Int[Tensor, "batch id"], positions: Float[Tensor, "#id d_model"]
    ) -> Float[Tensor, "batch id d_model"]:
        """Embed ``ids`` with these vectors of ``self.positions``."""
        embedded: Tensor = self.dropout(self.tokens(ids) * self.scale + positions)
        return embedded
