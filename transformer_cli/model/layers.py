"""The layers of encoder and decoder (Vaswani et al. 2017, sections 3.1 and 3.3)."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.attention import MultiHeadAttention
from transformer_cli.model.dropout import Dropout
from transformer_cli.model.linear import FusedLinear


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2 at every position; SwiGLU gates with a third matrix."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activation = config.activation
        self.inner = nn.Linear(config.d_model, config.d_ff)
        self.gate = (
            nn.Linear(config.d_model, config.d_ff) if config.activation == "swiglu" else None
        )
        self.dropout = Dropout(config.activation_dropout)
        self.outer = nn.Linear(config.d_ff, config.d_model)
        self._inner = FusedLinear(self.inner)
        self._outer = FusedLinear(self.outer)
        self._gate = FusedLinear(self.gate) if self.gate is not None else None

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Apply both projections, with the activation and dropout in between."""
        inner = self._inner(x, relu=self.activation == "relu")
        if self.activation == "gelu":
            inner = F.gelu(inner)
        elif self.activation == "swish":
            inner = F.silu(inner)
        elif self._gate is not None:
            inner = F.silu(self._gate(x)) * inner
        return self._outer(self.dropout(inner))


class Residual(nn.Module):
    """x + Dropout(Sublayer(LayerNorm(x))), or LayerNorm(x + Dropout(Sublayer(x))) for post-norm."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pre_norm = config.norm == "pre"
        self.norm = nn.LayerNorm(config.d_model)
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


_INITIAL_CAPACITY = 16


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

        There may be fewer hypotheses than the beam has slots.
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
        """Return the layer's output for all target positions at once (teacher forcing).

        Padding is at the end of a target, so the causal mask hides it from real positions.
        """
        x = self.around_self_attention(x, lambda y: self.self_attention(y, y, causal=True))
        x = self.around_cross_attention(x, lambda y: self.cross_attention(y, memory, src_mask))
        x = self.around_feed_forward(x, self.feed_forward)
        return x

    def init_cache(self, memory: Float[Tensor, "batch src d_model"], beam_size: int) -> LayerCache:
        """Return the cache before the first step."""
        keys, values = self.cross_attention.keys_values(memory)
        batch, heads, _, d_head = keys.shape
        shape = (batch, heads, _INITIAL_CAPACITY, beam_size, d_head)
        # Contiguous, since they are read at every step. Zeros, since slots that no hypothesis has
        # written are multiplied by attention weights of zero.
        return LayerCache(
            keys.contiguous(), values.contiguous(), keys.new_zeros(shape), keys.new_zeros(shape)
        )

    def step(
        self,
        x: Float[Tensor, "batch hypothesis d_model"],
        cache: LayerCache,
        tgt_mask: Bool[Tensor, "batch 1 hypothesis written"]
        | Float[Tensor, "batch 1 hypothesis written"]
        | None,
        src_mask: Bool[Tensor, "batch 1 1 src"] | Float[Tensor, "batch 1 1 src"],
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
