"""Multi-head attention (Vaswani et al. 2017, section 3.2)."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_cli.model.dropout import Dropout
from transformer_cli.model.linear import FusedLinear

_MAX_UNFUSED_QUERIES = 16

Mask = Bool[Tensor, "batch 1 #query key"] | Float[Tensor, "batch 1 #query key"]
"""Where queries may attend: True or 0; False and -inf forbid it. Floats are of the keys' dtype."""


class MultiHeadAttention(nn.Module):
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_head)) V in ``num_heads`` subspaces.

    Args:
        d_model: width of input and output; a multiple of ``num_heads``.
        num_heads: number of subspaces.
        dropout: probability with which a weight is dropped in training.
    """

    def __init__(self, d_model: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.dropout = Dropout(dropout)
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)
        self._qkv = FusedLinear(self.query, self.key, self.value)
        self._q = FusedLinear(self.query)
        self._kv = FusedLinear(self.key, self.value)
        self._out = FusedLinear(self.output)
        self._recorded: list[Tensor] | None = None

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"],
        mask: Bool[Tensor, "batch 1 #query key"] | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "batch query d_model"]:
        """Attend from each position of ``x`` to ``memory`` where ``mask`` is True.

        Args:
            x: queries.
            memory: keys and values.
            mask: True means 'may attend'; None masks nothing.
            causal: position i of ``x`` attends to positions up to i of ``memory``; no mask then.
        """
        if x is memory:
            queries, keys, values = self.queries_keys_values(x)
        else:
            queries, (keys, values) = self.queries(x), self.keys_values(memory)
        return self.attend(queries, keys, values, mask, causal)

    def keys_values(
        self, memory: Float[Tensor, "batch key d_model"]
    ) -> tuple[Float[Tensor, "batch heads key d_head"], Float[Tensor, "batch heads key d_head"]]:
        """Return the projected keys and values of ``memory``, which a decoder caches."""
        keys, values = self._split(self._kv(memory), 2)
        return keys, values

    def queries(
        self, x: Float[Tensor, "batch query d_model"]
    ) -> Float[Tensor, "batch heads query d_head"]:
        """Return the projected queries of ``x``."""
        (queries,) = self._split(self._q(x), 1)
        return queries

    def queries_keys_values(
        self, x: Float[Tensor, "batch position d_model"]
    ) -> tuple[Float[Tensor, "batch heads position d_head"], ...]:
        """Return all three projections of ``x``, computed as one GEMM."""
        return self._split(self._qkv(x), 3)

    def _split(
        self, projected: Float[Tensor, "batch position width"], count: int
    ) -> tuple[Float[Tensor, "batch heads position d_head"], ...]:
        """Split ``count`` concatenated projections into heads."""
        batch, position, _ = projected.shape
        split = projected.view(batch, position, count, self.num_heads, -1)
        return tuple(split.permute(2, 0, 3, 1, 4))

    def attend(
        self,
        queries: Float[Tensor, "batch heads query d_head"],
        keys: Float[Tensor, "batch heads key d_head"],
        values: Float[Tensor, "batch heads key d_head"],
        mask: Mask | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "batch query d_model"]:
        """Attend with queries, keys and values that are already projected."""
        if self._recorded is None and not self._use_unfused(queries):
            dropout = self.dropout.p if self.training else 0.0
            attended = F.scaled_dot_product_attention(
                queries, keys, values, attn_mask=mask, dropout_p=dropout, is_causal=causal
            )
        else:
            weights = attention_weights(queries, keys, mask, causal)
            if self._recorded is not None:
                self._recorded.append(weights.detach())
            attended = self.dropout(weights) @ values
        merged = attended.transpose(1, 2).flatten(2)  # heads side by side again
        return self._out(merged)

    def _use_unfused(self, queries: Tensor) -> bool:
        """Return whether to materialise the weights instead of using fused attention.

        On a CPU torch's fused attention has no dropout, a slow backward in bfloat16, and is slow
        for the few queries of a decoding step. It needs less memory for long sequences.
        """
        if queries.device.type != "cpu":
            return False
        if self.training:
            return queries.dtype == torch.bfloat16 or self.dropout.p > 0.0
        return queries.size(2) <= _MAX_UNFUSED_QUERIES


def attention_weights(
    queries: Float[Tensor, "batch heads query d_head"],
    keys: Float[Tensor, "batch heads key d_head"],
    mask: Mask | None,
    causal: bool,
) -> Float[Tensor, "batch heads query key"]:
    """Return softmax(Q K^T / sqrt(d_head)), which fused attention never materialises."""
    scores = (queries / math.sqrt(queries.size(3))) @ keys.transpose(2, 3)
    if causal:
        mask = torch.ones(scores.shape[2:], dtype=torch.bool, device=scores.device).tril()
    if mask is not None and mask.is_floating_point():
        scores = scores + mask
    elif mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    # Autocast would return float32 weights, which the next matmul would cast down again.
    with torch.autocast(scores.device.type, enabled=False):
        return scores.softmax(dim=3)


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Record the attention weights of every call inside the block.

    Yields:
        the weights of each attention module's calls in order, (batch, heads, query, key), by module
        name, as in ``decoder.2.cross_attention``. Outputs are the same, only slower.
    """
    attentions = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
    }
    recorded: dict[str, list[Tensor]] = {name: [] for name in attentions}
    for name, module in attentions.items():
        module._recorded = recorded[name]
    try:
        yield recorded
    finally:
        for module in attentions.values():
            module._recorded = None
