"""The layers of encoder and decoder (Vaswani et al. 2017, section 3), and what they are made of."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.linear import FusedLinear


class Activation(NamedTuple):
    """What stands between the two matrices of a feed-forward layer."""

    function: Callable[[Tensor], Tensor]
    gated: bool = False
    """Whether it is applied to a third matrix' output, which the first one's is multiplied by."""


# What each exporter supports is said in export/formats.py; CTranslate2's, which also is an engine,
# in inference/ctranslate2_engine.py. What is not named there is refused.
NORMS: dict[str, Callable[[int], nn.Module]] = {
    "layernorm": nn.LayerNorm,
    "rmsnorm": partial(nn.RMSNorm, eps=1e-5),  # as of LayerNorm; its own is of the dtype
}
"""By ``model.norm_kind``; each takes the width."""
ACTIVATIONS = {
    "relu": Activation(F.relu),
    "gelu": Activation(F.gelu),
    "swish": Activation(F.silu),
    "swiglu": Activation(F.silu, gated=True),
}
"""By ``model.activation``."""


class Dropout(nn.Module):
    """Zero each element with probability ``p`` in training and scale the rest by 1 / (1 - p).

    On a CPU torch draws one Bernoulli variable per element, which costs a quarter of a training
    step. Here four elements share one 64-bit draw, 16 bits each, so ``p`` is rounded to a multiple
    of 2^-16 and the scale follows the rounded value: the expectation stays exact.
    """

    _LEVELS = 1 << 16

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Drop elements of ``x`` in training; return ``x`` itself otherwise."""
        if not self.training or self.p == 0.0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        dropped_levels = round(self.p * self._LEVELS)
        draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        levels = draws.view(torch.int16)[: x.numel()].view(x.shape)
        # A mask of the dtype of ``x``: torch multiplies by booleans slowly.
        keep = torch.ge(levels, dropped_levels - self._LEVELS // 2, out=torch.empty_like(x))
        return (x * keep).mul_(self._LEVELS / (self._LEVELS - dropped_levels))

    def extra_repr(self) -> str:
        """Return what ``repr`` shows."""
        return f"p={self.p}"


# --- attention ------------------------------------------------------------------------------------

Mask = Bool[Tensor, "batch 1 #query key"]
"""True where queries may attend."""


class MultiHeadAttention(nn.Module):
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_head)) V in ``num_heads`` subspaces.

    ``num_heads`` divides ``d_model``; ``dropout`` is of the weights.
    """

    _MAX_UNFUSED_QUERIES = 16

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
        mask: Mask | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "batch query d_model"]:
        """Attend from each position of ``x`` to ``memory`` where ``mask``, if any, is True.

        If ``causal``, position i attends to positions up to i instead.
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
        """Return whether to materialise the weights instead of using fused attention."""
        # On a CPU torch's fused attention has no dropout, a slow backward in bfloat16, and is slow
        # for the few queries of a decoding step. It needs less memory for long sequences.
        if queries.device.type != "cpu":
            return False
        if self.training:
            return queries.dtype == torch.bfloat16 or self.dropout.p > 0.0
        return queries.size(2) <= self._MAX_UNFUSED_QUERIES


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
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    # Autocast would return float32 weights, which the next matmul would cast down again.
    with torch.autocast(scores.device.type, enabled=False):
        return scores.softmax(dim=3)


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Record the attention weights of every call inside the block; outputs are the same.

    Yields:
        the weights of each attention module's calls in order, (batch, heads, query, key), by module
        name, as in ``decoder.2.cross_attention``.
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


# --- layers ---------------------------------------------------------------------------------------


class FeedForward(nn.Module):
    """f(x W1 + b1) W2 + b2 at every position; gated, (f(x W3 + b3) * (x W1 + b1)) W2 + b2."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activation, gated = ACTIVATIONS[config.activation]
        self.inner = nn.Linear(config.d_model, config.d_ff)
        self.gate = nn.Linear(config.d_model, config.d_ff) if gated else None
        self.dropout = Dropout(config.activation_dropout)
        self.outer = nn.Linear(config.d_ff, config.d_model)
        self._inner = FusedLinear(self.inner)
        self._outer = FusedLinear(self.outer)
        self._gate = FusedLinear(self.gate) if self.gate is not None else None

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Apply both projections, with the activation and dropout in between."""
        if self._gate is not None:
            inner = self._inner(x)
            inner = self.activation(self._gate(x)) * inner
        elif self.activation is F.relu:
            inner = self._inner(x, relu=True)  # by oneDNN as part of the product
        else:
            inner = self.activation(self._inner(x))
        return self._outer(self.dropout(inner))


class Residual(nn.Module):
    """x + Dropout(Sublayer(Norm(x))), or Norm(x + Dropout(Sublayer(x))) for post-norm."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pre_norm = config.norm == "pre"
        self.norm = NORMS[config.norm_kind](config.d_model)
        self.dropout = Dropout(config.dropout)

    def forward(
        self, x: Float[Tensor, "*batch d_model"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "*batch d_model"]:
        """Return ``x`` plus the sublayer's output, normalised before or after."""
        if self.pre_norm:
            x = x + self.dropout(sublayer(self.norm(x)))
        else:
            x = self.norm(x + self.dropout(sublayer(x)))
        return x


class EncoderLayer(nn.Module):
    """Self-attention followed by feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(
            config.d_model, config.num_heads, config.attention_dropout
        )
        self.feed_forward = FeedForward(config)
        self.around_self_attention = Residual(config)
        self.around_feed_forward = Residual(config)

    def forward(
        self, x: Float[Tensor, "batch src d_model"], src_mask: Bool[Tensor, "batch 1 1 src"]
    ) -> Float[Tensor, "batch src d_model"]:
        """Return the layer's output; ``src_mask`` masks padding."""
        x = self.around_self_attention(x, lambda y: self.self_attention(y, y, src_mask))
        x = self.around_feed_forward(x, self.feed_forward)
        return x


@dataclass
class LayerCache:
    """Key-value cache of one decoder layer.

    The memory's keys and values are computed once per sentence. The target's are written once per
    hypothesis and never moved: ``DecoderState`` masks those that a hypothesis may not attend to.
    """

    memory_keys: Float[Tensor, "batch heads src d_head"]
    memory_values: Float[Tensor, "batch heads src d_head"]
    keys: Float[Tensor, "batch heads capacity beam d_head"]
    values: Float[Tensor, "batch heads capacity beam d_head"]
    length: int = 0
    """Positions written."""

    def write(
        self,
        keys: Float[Tensor, "batch heads hypothesis d_head"],
        values: Float[Tensor, "batch heads hypothesis d_head"],
    ) -> tuple[
        Float[Tensor, "batch heads written d_head"], Float[Tensor, "batch heads written d_head"]
    ]:
        """Store the keys and values of the next position and return all up to it, by position.

        There may be fewer hypotheses than the beam has places.
        """
        position, self.length = self.length, self.length + 1
        if position == self.keys.size(2):
            self.keys, self.values = _double_capacity(self.keys), _double_capacity(self.values)
        self.keys[:, :, position, : keys.size(2)] = keys
        self.values[:, :, position, : keys.size(2)] = values
        end = self.length
        return self.keys[:, :, :end].flatten(2, 3), self.values[:, :, :end].flatten(2, 3)

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order."""
        self.memory_keys, self.memory_values = self.memory_keys[rows], self.memory_values[rows]
        self.keys, self.values = self.keys[rows], self.values[rows]


def _double_capacity(cache: Tensor) -> Tensor:
    batch, heads, capacity, beam, d_head = cache.shape
    doubled = cache.new_zeros(batch, heads, 2 * capacity, beam, d_head)
    doubled[:, :, :capacity] = cache
    return doubled


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention over the memory, feed-forward."""

    _INITIAL_CAPACITY = 16

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        attention = (config.d_model, config.num_heads, config.attention_dropout)
        self.self_attention = MultiHeadAttention(*attention)
        self.cross_attention = MultiHeadAttention(*attention)
        self.feed_forward = FeedForward(config)
        self.around_self_attention = Residual(config)
        self.around_cross_attention = Residual(config)
        self.around_feed_forward = Residual(config)

    def forward(
        self,
        x: Float[Tensor, "batch tgt d_model"],
        memory: Float[Tensor, "batch src d_model"],
        src_mask: Bool[Tensor, "batch 1 1 src"],
    ) -> Float[Tensor, "batch tgt d_model"]:
        """Return the layer's output for all target positions at once (teacher forcing)."""
        # Padding is at the end of a target, so the causal mask hides it from real positions.
        x = self.around_self_attention(x, lambda y: self.self_attention(y, y, causal=True))
        x = self.around_cross_attention(x, lambda y: self.cross_attention(y, memory, src_mask))
        x = self.around_feed_forward(x, self.feed_forward)
        return x

    def init_cache(self, memory: Float[Tensor, "batch src d_model"], beam_size: int) -> LayerCache:
        """Return the cache before the first step."""
        keys, values = self.cross_attention.keys_values(memory)
        batch, heads, _, d_head = keys.shape
        shape = (batch, heads, self._INITIAL_CAPACITY, beam_size, d_head)
        # Contiguous, since they are read at every step. Zeros, since what no hypothesis has written
        # is multiplied by attention weights of zero.
        return LayerCache(
            keys.contiguous(), values.contiguous(), keys.new_zeros(shape), keys.new_zeros(shape)
        )

    def step(
        self,
        x: Float[Tensor, "batch hypothesis d_model"],
        cache: LayerCache,
        tgt_mask: Bool[Tensor, "batch 1 hypothesis written"] | None,
        src_mask: Bool[Tensor, "batch 1 1 src"],
    ) -> Float[Tensor, "batch hypothesis d_model"]:
        """Return the output at the next position of each hypothesis; earlier ones are cached."""

        def self_attend(y: Tensor) -> Tensor:
            queries, keys, values = self.self_attention.queries_keys_values(y)
            return self.self_attention.attend(queries, *cache.write(keys, values), tgt_mask)

        def cross_attend(y: Tensor) -> Tensor:
            queries = self.cross_attention.queries(y)
            return self.cross_attention.attend(
                queries, cache.memory_keys, cache.memory_values, src_mask
            )

        x = self.around_self_attention(x, self_attend)
        x = self.around_cross_attention(x, cross_attend)
        x = self.around_feed_forward(x, self.feed_forward)
        return x
