"""Multi-head attention (Vaswani et al. 2017, section 3.2)."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F


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
        self.dropout = dropout
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)
        self._recorded: list[Tensor] | None = None

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"],
        mask: Bool[Tensor, "batch 1 #query key"] | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "batch query d_model"]:
        """Let each position of ``x`` look at ``memory`` where ``mask`` is True.

        Args:
            x: what asks.
            memory: what is looked at.
            mask: True means 'may attend'; None lets everything attend.
            causal: position i of ``x`` sees positions up to i of ``memory`` only; no mask then.
        """
        return self.attend(x, *self.keys_values(memory), mask, causal)

    def keys_values(
        self, memory: Float[Tensor, "batch key d_model"]
    ) -> tuple[Float[Tensor, "batch heads key d_head"], Float[Tensor, "batch heads key d_head"]]:
        """The projected keys and values of ``memory``, which a decoder keeps between steps."""
        return self._split(self.key(memory)), self._split(self.value(memory))

    def attend(
        self,
        x: Float[Tensor, "batch query d_model"],
        keys: Float[Tensor, "batch heads key d_head"],
        values: Float[Tensor, "batch heads key d_head"],
        mask: Bool[Tensor, "batch 1 #query key"] | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "batch query d_model"]:
        """As ``forward``, over keys and values that are projected already."""
        queries = self._split(self.query(x))
        dropout = self.dropout if self.training else 0.0
        if self._recorded is None:
            attended = F.scaled_dot_product_attention(
                queries, keys, values, attn_mask=mask, dropout_p=dropout, is_causal=causal
            )
        else:
            weights = attention_weights(queries, keys, mask, causal)
            self._recorded.append(weights.detach())
            attended = F.dropout(weights, dropout) @ values
        merged = attended.transpose(1, 2).flatten(2)  # heads side by side again
        projected: Tensor = self.output(merged)
        return projected

    def _split(
        self, x: Float[Tensor, "batch position d_model"]
    ) -> Float[Tensor, "batch heads position d_head"]:
        batch, position, _ = x.shape
        return x.view(batch, position, self.num_heads, -1).transpose(1, 2)


def attention_weights(
    queries: Float[Tensor, "batch heads query d_head"],
    keys: Float[Tensor, "batch heads key d_head"],
    mask: Bool[Tensor, "batch 1 #query key"] | None,
    causal: bool,
) -> Float[Tensor, "batch heads query key"]:
    """The weights that the fused path never makes: softmax(Q K^T / sqrt(d_head))."""
    scores = queries @ keys.transpose(2, 3) / math.sqrt(queries.size(3))
    if causal:
        mask = torch.ones(scores.shape[2:], dtype=torch.bool, device=scores.device).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(dim=3)


@contextmanager
def recorded_attention(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Keep the attention weights of every call that ``model`` makes inside the block.

    Yields:
        by attention module's name, as in ``decoder.2.cross_attention``, the weights of its calls in
        order: (batch, heads, query, key). The model computes the same numbers, more slowly.
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
