"""The encoder-decoder Transformer (Vaswani et al. 2017), from ids to logits.

The parts, in order: dropout and attention, the layers of both stacks, embeddings, the model, its
state during step-by-step decoding, and functions for its weights.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from transformer_cli.base.errors import CheckpointError
from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.linear import FusedLinear

SrcIds = Int[Tensor, "batch src"]
TgtIds = Int[Tensor, "batch tgt"]
Memory = Float[Tensor, "batch src d_model"]
"""The encoder's output."""
SrcMask = Bool[Tensor, "batch 1 1 src"]
"""True where attention to the encoder's output is allowed, which is everywhere but at padding."""
Hidden = Float[Tensor, "batch tgt d_model"]
"""The decoder's output at all target positions."""
StepIds = Int[Tensor, "batch hypothesis"]
StepHidden = Float[Tensor, "batch hypothesis d_model"]
"""The decoder's output at one position of each hypothesis."""


class Activation(NamedTuple):
    """The activation function between the two matrices of a feed-forward layer."""

    function: Callable[[Tensor], Tensor]
    gated: bool = False
    """Whether it applies to a gate, which is the output of a third matrix; see ``FeedForward``."""


# Exporters and other engines declare which of these they support, and refuse the others.
NORMS: dict[str, Callable[[int], nn.Module]] = {
    "layernorm": nn.LayerNorm,
    "rmsnorm": partial(nn.RMSNorm, eps=1e-5),  # LayerNorm's; the default depends on the dtype
}
"""For each ``model.norm_kind``, a function (width of its input) -> norm layer."""
ACTIVATIONS = {
    "relu": Activation(F.relu),
    "gelu": Activation(F.gelu),
    "swish": Activation(F.silu),
    "swiglu": Activation(F.silu, gated=True),
}
"""The activation for each ``model.activation``."""


class Dropout(nn.Module):
    """A layer that zeroes each element with probability ``p`` in training, and scales the rest.

    On a CPU, torch draws one Bernoulli variable per element, which costs a quarter of a training
    step. Here four elements share one 64-bit draw, 16 bits each, so ``p`` is rounded to a multiple
    of 2^-16. The scale, 1 / (1 - p), uses the rounded value, so the expectation stays exact.
    """

    _LEVELS = 1 << 16

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Apply dropout in training; otherwise return ``x`` itself."""
        if not self.training or self.p == 0.0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        dropped_levels = round(self.p * self._LEVELS)
        draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        levels = draws.view(torch.int16)[: x.numel()].view(x.shape)
        # The mask has the dtype of ``x``, because torch multiplies by booleans slowly.
        keep = torch.ge(levels, dropped_levels - self._LEVELS // 2, out=torch.empty_like(x))
        return (x * keep).mul_(self._LEVELS / (self._LEVELS - dropped_levels))


# --- attention ------------------------------------------------------------------------------------

Mask = Bool[Tensor, "batch 1 #query key"]
"""True where a query may attend to a key."""
Heads = tuple[Float[Tensor, "batch heads position d_head"], ...]
"""Queries, keys or values after projection, split into attention heads."""


class MultiHeadAttention(nn.Module):
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_head)) V in ``num_heads`` subspaces.

    ``num_heads`` must divide ``d_model``. ``dropout`` applies to the attention weights.
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
        """Attend from each position of ``x`` to ``memory``, only where ``mask`` (if given) is True.

        If ``causal`` is set, there is no ``mask``, and position i attends to positions up to i.
        """
        if x is memory:
            queries, keys, values = self.queries_keys_values(x)
        else:
            queries, (keys, values) = self.queries(x), self.keys_values(memory)
        return self.attend(queries, keys, values, mask, causal)

    def queries(
        self, x: Float[Tensor, "batch query d_model"]
    ) -> Float[Tensor, "batch heads query d_head"]:
        """Return the projected queries of ``x``."""
        return self._split(self._q(x), 1)[0]

    def keys_values(self, memory: Float[Tensor, "batch key d_model"]) -> Heads:
        """Return the projected keys and values of ``memory``; decoding caches them."""
        return self._split(self._kv(memory), 2)

    def queries_keys_values(self, x: Float[Tensor, "batch position d_model"]) -> Heads:
        """Return all three projections of ``x``, computed as one GEMM."""
        return self._split(self._qkv(x), 3)

    def _split(self, projected: Float[Tensor, "batch position width"], count: int) -> Heads:
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
        """Return whether to materialise the attention weights instead of using fused attention."""
        # On a CPU, torch's fused attention has no dropout and a slow backward pass in bfloat16. It
        # is slow for the few queries of a decoding step, but long sequences need less memory.
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
    """Record the attention weights of every call inside the block, without changing outputs.

    Yields:
        a dictionary from the name of each attention module, e.g. ``decoder.2.cross_attention``, to
        the weights of its calls in order, each (batch, heads, query, key).
    """
    recorded: dict[str, list[Tensor]] = {}
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            module._recorded = recorded[name] = []
    try:
        yield recorded
    finally:
        for module in model.modules():
            if isinstance(module, MultiHeadAttention):
                module._recorded = None


# --- layers ---------------------------------------------------------------------------------------


class FeedForward(nn.Module):
    """f(x W1 + b1) W2 + b2 at every position; if gated, (f(x W3 + b3) * (x W1 + b1)) W2 + b2."""

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
            inner = self._inner(x) * self.activation(self._gate(x))
        elif self.activation is F.relu:
            inner = self._inner(x, relu=True)  # oneDNN computes the ReLU in the product
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
        """Return ``x`` plus the sublayer's output; normalise the sublayer's input or the sum."""
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

    def forward(self, x: Memory, src_mask: SrcMask) -> Memory:
        """Return the layer's output; ``src_mask`` masks padding."""
        x = self.around_self_attention(x, lambda y: self.self_attention(y, y, src_mask))
        x = self.around_feed_forward(x, self.feed_forward)
        return x


@dataclass
class LayerCache:
    """Cache of the keys and values of one decoder layer.

    Those of the encoder's output are computed once per sentence, those of the target once for each
    hypothesis. They are never moved; ``DecoderState`` masks what a hypothesis may not attend to.
    """

    memory_keys: Float[Tensor, "batch heads src d_head"]
    memory_values: Float[Tensor, "batch heads src d_head"]
    keys: Float[Tensor, "batch heads capacity beam d_head"]
    values: Float[Tensor, "batch heads capacity beam d_head"]
    length: int = 0
    """Number of positions written."""

    def write(
        self,
        keys: Float[Tensor, "batch heads hypothesis d_head"],
        values: Float[Tensor, "batch heads hypothesis d_head"],
    ) -> Heads:
        """Store the keys and values of the next position; return all keys and all values so far.

        There may be fewer hypotheses than the beam size.
        """
        position, self.length = self.length, self.length + 1
        if position == self.keys.size(2):  # full: double the capacity
            self.keys = torch.cat((self.keys, torch.zeros_like(self.keys)), dim=2)
            self.values = torch.cat((self.values, torch.zeros_like(self.values)), dim=2)
        self.keys[:, :, position, : keys.size(2)] = keys
        self.values[:, :, position, : keys.size(2)] = values
        end = self.length
        return self.keys[:, :, :end].flatten(2, 3), self.values[:, :, :end].flatten(2, 3)

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order."""
        self.memory_keys, self.memory_values = self.memory_keys[rows], self.memory_values[rows]
        self.keys, self.values = self.keys[rows], self.values[rows]


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention over the encoder's output, feed-forward."""

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

    def forward(self, x: Hidden, memory: Memory, src_mask: SrcMask) -> Hidden:
        """Return the layer's output for all target positions at once (teacher forcing)."""
        # Padding is at the end of a target, so the causal mask hides it from real positions.
        x = self.around_self_attention(x, lambda y: self.self_attention(y, y, causal=True))
        x = self.around_cross_attention(x, lambda y: self.cross_attention(y, memory, src_mask))
        x = self.around_feed_forward(x, self.feed_forward)
        return x

    def init_cache(self, memory: Memory, beam_size: int) -> LayerCache:
        """Return a cache for the first step, with only keys and values of the encoder's output."""
        keys, values = self.cross_attention.keys_values(memory)
        batch, heads, _, d_head = keys.shape
        shape = (batch, heads, self._INITIAL_CAPACITY, beam_size, d_head)
        # Contiguous, because every step reads them. Zeros, because attention multiplies entries
        # that no hypothesis has written by weights of zero.
        return LayerCache(
            keys.contiguous(), values.contiguous(), keys.new_zeros(shape), keys.new_zeros(shape)
        )

    def step(
        self,
        x: StepHidden,
        cache: LayerCache,
        tgt_mask: Bool[Tensor, "batch 1 hypothesis written"] | None,
        src_mask: SrcMask,
    ) -> StepHidden:
        """Return the output at each hypothesis' next position; ``cache`` has earlier positions."""

        def self_attend(y: Tensor) -> Tensor:
            queries, keys, values = self.self_attention.queries_keys_values(y)
            keys, values = cache.write(keys, values)
            return self.self_attention.attend(queries, keys, values, tgt_mask)

        def cross_attend(y: Tensor) -> Tensor:
            queries = self.cross_attention.queries(y)
            return self.cross_attention.attend(
                queries, cache.memory_keys, cache.memory_values, src_mask
            )

        x = self.around_self_attention(x, self_attend)
        x = self.around_cross_attention(x, cross_attend)
        x = self.around_feed_forward(x, self.feed_forward)
        return x


# --- embeddings (section 3.4 and 3.5) -------------------------------------------------------------


def sinusoids(length: int, d_model: int) -> Float[Tensor, "length d_model"]:
    """Return PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos(the same)."""
    positions = torch.arange(length, dtype=torch.float64)[:, None]
    rates = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angles = positions * rates
    # (length, d_model / 2, 2) flattened: sine and cosine alternate.
    return torch.stack((angles.sin(), angles.cos()), dim=2).flatten(1).float()


class SinusoidalPositions(nn.Module):
    """Sinusoidal position encodings, in a table that grows with the longest input."""

    table: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        table = torch.empty(256, d_model)
        # A model that has only shapes may be too large for any memory.
        table = table if table.is_meta else sinusoids(*table.shape)
        self.register_buffer("table", table, persistent=False)

    def forward(self, start: int, length: int) -> Float[Tensor, "length d_model"]:
        """Return the encodings of positions ``start`` to ``start + length - 1``."""
        end = start + length
        table = self.table  # another thread may replace it
        if end > table.size(0):
            # Twice the size needed, so that decoding does not grow it at every step.
            table = self.table = sinusoids(2 * end, self.d_model).to(table)
        return table[start:end]


class LearnedPositions(nn.Module):
    """Learned position embeddings up to a maximum length, which callers must respect."""

    def __init__(self, max_positions: int, d_model: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_positions, d_model))
        nn.init.normal_(self.table, std=d_model**-0.5)

    def forward(self, start: int, length: int) -> Float[Tensor, "length d_model"]:
        """Return the embeddings of positions ``start`` to ``start + length - 1``.

        Raises:
            ValueError: the table has fewer positions.
        """
        if start + length > self.table.size(0):
            raise ValueError(
                f"{start + length} positions, but the model learned only {self.table.size(0)}"
            )
        return self.table[start : start + length]


class Embedding(nn.Module):
    """Token vectors times sqrt(d_model), plus positions, with dropout."""

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
        self, ids: Int[Tensor, "batch column"], position: int | None = None
    ) -> Float[Tensor, "batch column d_model"]:
        """Embed ``ids``; column n is at position n, or all are at ``position`` if it is given."""
        start, length = (0, ids.size(1)) if position is None else (position, 1)
        embedded: Tensor = self.dropout(
            self.tokens(ids) * self.scale + self.positions(start, length)
        )
        return embedded


# --- the model ------------------------------------------------------------------------------------


class Transformer(nn.Module):
    """Encoder-decoder Transformer: source and target prefix ids in, next-token logits out.

    Args:
        config: sizes and architecture.
        src_size: number of source token ids.
        tgt_size: number of target token ids; equal to ``src_size`` if all weights are tied.
        pad_id: id of padding; never attended to.
    """

    def __init__(self, config: ModelConfig, src_size: int, tgt_size: int, pad_id: int) -> None:
        super().__init__()
        self.pad_id = pad_id
        self.tgt_size = tgt_size
        self.src_embedding = Embedding(config, src_size)
        self.tgt_embedding = Embedding(config, tgt_size)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_decoder_layers))
        # Pre-norm leaves the residual stream unnormalised, so each stack ends with another norm.
        final_norm = NORMS[config.norm_kind] if config.norm == "pre" else nn.Identity
        self.encoder_norm = final_norm(config.d_model)
        self.decoder_norm = final_norm(config.d_model)
        self.output = nn.Linear(config.d_model, tgt_size)
        self._output = FusedLinear(self.output)
        self._initialise(config)

    def _initialise(self, config: ModelConfig) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                # With Xavier initialisation, a tied model learns slowly at first: on Multi30k,
                # validation BLEU was 6 instead of 31 after five epochs.
                nn.init.normal_(module.weight, std=config.d_model**-0.5)
        if config.tying != "none":
            self.output.weight = self.tgt_embedding.tokens.weight
        if config.tying == "all":
            self.src_embedding.tokens.weight = self.tgt_embedding.tokens.weight

    def forward(self, src: SrcIds, tgt_in: TgtIds) -> Float[Tensor, "batch tgt tgt_size"]:
        """Return the logits of the token after each position of ``tgt_in``."""
        return self.logits(self.hidden_states(src, tgt_in))

    def hidden_states(self, src: SrcIds, tgt_in: TgtIds) -> Hidden:
        """Return the decoder's output, which is the input of the output layer."""
        memory, src_mask = self.encode(src)
        return self.decode(tgt_in, memory, src_mask)

    def encode(self, src: SrcIds) -> tuple[Memory, SrcMask]:
        """Return the encoder's output, and its mask, which is True where attention is allowed."""
        src_mask = (src != self.pad_id)[:, None, None, :]
        x = self.src_embedding(src)
        for layer in self.encoder:
            x = layer(x, src_mask)
        return self.encoder_norm(x), src_mask

    def decode(self, tgt_in: TgtIds, memory: Memory, src_mask: SrcMask) -> Hidden:
        """Return the decoder's output at each position of ``tgt_in``."""
        x = self.tgt_embedding(tgt_in)
        for layer in self.decoder:
            x = layer(x, memory, src_mask)
        hidden_states: Tensor = self.decoder_norm(x)
        return hidden_states

    def init_state(self, src: SrcIds, beam_size: int = 1) -> "DecoderState":
        """Encode ``src``; return the state for decoding with ``beam_size`` hypotheses per row."""
        memory, src_mask = self.encode(src)
        caches = [layer.init_cache(memory, beam_size) for layer in self.decoder_layers()]
        return DecoderState(src_mask, caches, beam_size)

    def step(self, tokens: StepIds, state: "DecoderState") -> StepHidden:
        """Feed ``tokens`` to the decoder and return its output; advance ``state`` by a position."""
        tgt_mask = state.extend(tokens.size(1))
        x = self.tgt_embedding(tokens, state.position)
        for layer, cache in zip(self.decoder_layers(), state.caches, strict=True):
            x = layer.step(x, cache, tgt_mask, state.src_mask)
        state.position += 1
        hidden_states: Tensor = self.decoder_norm(x)
        return hidden_states

    def logits(
        self, hidden_states: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch tgt_size"]:
        """Apply the output layer to the decoder's output."""
        return self._output(hidden_states)

    def freeze(self, parts: Collection[str]) -> None:
        """Stop computing gradients for these parts of the model; see ``training.freeze``."""
        modules: dict[str, tuple[nn.Module, ...]] = {
            "embeddings": (self.src_embedding, self.tgt_embedding),
            "encoder": (self.encoder, self.encoder_norm),
            "decoder": (self.decoder, self.decoder_norm),
        }
        for part in parts:
            for module in modules[part]:
                module.requires_grad_(False)

    def decoder_layers(self) -> list[DecoderLayer]:
        """Return the decoder's layers, typed as ``DecoderLayer``."""
        return cast("list[DecoderLayer]", list(self.decoder))


@dataclass
class DecoderState:
    """State of a batch during step-by-step decoding.

    Beam search reorders hypotheses without moving their caches. For each hypothesis and position,
    ``cache_indirection`` has the index in the beam where the token at that position was cached.
    """

    src_mask: SrcMask
    caches: list[LayerCache]
    beam_size: int = 1
    position: int = 0
    cache_indirection: Int[Tensor, "batch hypothesis position"] | None = None

    def extend(self, hypotheses: int) -> Bool[Tensor, "batch 1 hypothesis written"] | None:
        """Add a position; return a mask of the keys that each hypothesis sees, or None for all."""
        if self.beam_size == 1:
            return None
        places = torch.arange(self.beam_size, device=self.src_mask.device)
        here = places[None, :hypotheses, None].expand(self.src_mask.size(0), -1, -1)
        if self.cache_indirection is not None:
            here = torch.cat((self.cache_indirection, here), dim=2)
        self.cache_indirection = here
        return (self.cache_indirection[..., None] == places).flatten(2)[:, None]

    def reorder(self, parents: StepIds) -> None:
        """Let hypothesis i of each beam continue the earlier hypothesis ``parents[:, i]``."""
        if self.cache_indirection is not None:
            places = parents[..., None].expand(-1, -1, self.position)
            self.cache_indirection = self.cache_indirection.gather(1, places)

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keep these rows of the batch, in this order."""
        self.src_mask = self.src_mask[rows]
        if self.cache_indirection is not None:
            self.cache_indirection = self.cache_indirection[rows]
        for cache in self.caches:
            cache.select(rows)


def build_model(
    config: ModelConfig, src_size: int, tgt_size: int, pad_id: int, seed: int
) -> Transformer:
    """Build a model whose initial weights depend only on ``seed``."""
    torch.manual_seed(seed)
    return Transformer(config, src_size, tgt_size, pad_id)


def build_shapes(config: ModelConfig, src_size: int, tgt_size: int, pad_id: int) -> Transformer:
    """Build a model on device ``meta``: its weights have shapes, but take no memory."""
    with _ShapesOnly():
        return Transformer(config, src_size, tgt_size, pad_id)


class _ShapesOnly(TorchFunctionMode):
    # torch.device("meta") would import torch._dynamo to draw weights, which takes 2 seconds.
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.empty:
            kwargs["device"] = "meta"
        elif getattr(func, "__module__", None) == nn.init.__name__:
            return kwargs["tensor"]
        return func(*args, **kwargs)


def count_parameters(model: nn.Module, trained_only: bool = False) -> int:
    """Return the number of all parameters or of trained ones only; tied ones count once."""
    return sum(
        parameter.numel()
        for parameter in model.parameters()
        if parameter.requires_grad or not trained_only
    )


# --- weights by name, tied ones once --------------------------------------------------------------


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return the model's weights, keyed by name; they share memory with the model."""
    return {name: weight.detach() for name, weight in model.named_parameters()}


def check_fit(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Raise CheckpointError if names or shapes differ; ``model`` may be on the 'meta' device."""
    own = weights_of(model)
    for name in sorted(own.keys() ^ weights.keys()):
        where = "the checkpoint" if name in own else "the model"
        raise CheckpointError(f"the checkpoint does not fit the model: {where} has no '{name}'")
    for name, weight in own.items():
        if weight.shape != weights[name].shape:
            raise CheckpointError(
                f"the checkpoint does not fit the model: '{name}' has shape "
                f"{tuple(weights[name].shape)}, but the model's has {tuple(weight.shape)}"
            )


def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy ``weights`` into ``model``; raise CheckpointError if names or shapes differ."""
    check_fit(model, weights)
    with torch.no_grad():
        for name, weight in weights_of(model).items():
            weight.copy_(weights[name])
