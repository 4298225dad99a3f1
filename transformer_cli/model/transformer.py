"""The encoder-decoder Transformer (Vaswani et al. 2017, figure 1), from embeddings to logits."""

import math
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_cli.config.schema import ModelConfig
from transformer_cli.errors import CheckpointError
from transformer_cli.model.layers import NORMS, DecoderLayer, Dropout, EncoderLayer, LayerCache
from transformer_cli.model.linear import FusedLinear

# --- embeddings (section 3.4 and 3.5) -------------------------------------------------------------


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
        self, ids: Int[Tensor, "batch position"]
    ) -> Float[Tensor, "batch position d_model"]:
        """Embed rows of ``ids`` that begin at position 0."""
        positions = self.positions(0, ids.size(1))
        embedded: Tensor = self.dropout(self.tokens(ids) * self.scale + positions)
        return embedded

    def at(
        self, ids: Int[Tensor, "batch hypothesis"], position: int
    ) -> Float[Tensor, "batch hypothesis d_model"]:
        """Embed ``ids`` that are all at ``position``."""
        positions = self.positions(position, 1)
        embedded: Tensor = self.dropout(self.tokens(ids) * self.scale + positions)
        return embedded


# --- the model ------------------------------------------------------------------------------------


class Transformer(nn.Module):
    """Encoder-decoder Transformer: source and target prefix ids in, next-token logits out.

    Args:
        config: sizes and form.
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
        # Pre-norm leaves the residual stream unnormalised: each stack ends in one more norm.
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
                # Xavier here costs a tied model most of its first epochs: validation BLEU was 6
                # against 31 after five of them on Multi30k.
                nn.init.normal_(module.weight, std=config.d_model**-0.5)
        if config.tying != "none":
            self.output.weight = self.tgt_embedding.tokens.weight
        if config.tying == "all":
            self.src_embedding.tokens.weight = self.tgt_embedding.tokens.weight

    def forward(
        self, src: Int[Tensor, "batch src"], tgt_in: Int[Tensor, "batch tgt"]
    ) -> Float[Tensor, "batch tgt tgt_size"]:
        """Return the logits of the token after each position of ``tgt_in``."""
        return self.logits(self.hidden_states(src, tgt_in))

    def hidden_states(
        self, src: Int[Tensor, "batch src"], tgt_in: Int[Tensor, "batch tgt"]
    ) -> Float[Tensor, "batch tgt d_model"]:
        """Return the decoder's output, the input of the output layer."""
        memory, src_mask = self.encode(src)
        return self.decode(tgt_in, memory, src_mask)

    def encode(
        self, src: Int[Tensor, "batch src"]
    ) -> tuple[Float[Tensor, "batch src d_model"], Bool[Tensor, "batch 1 1 src"]]:
        """Return the memory of a source and its mask, True where it may be attended to."""
        src_mask = (src != self.pad_id)[:, None, None, :]
        x = self.src_embedding(src)
        for layer in self.encoder:
            x = layer(x, src_mask)
        memory: Tensor = self.encoder_norm(x)
        return memory, src_mask

    def decode(
        self,
        tgt_in: Int[Tensor, "batch tgt"],
        memory: Float[Tensor, "batch src d_model"],
        src_mask: Bool[Tensor, "batch 1 1 src"],
    ) -> Float[Tensor, "batch tgt d_model"]:
        """Return the decoder's output at each position of ``tgt_in``."""
        x = self.tgt_embedding(tgt_in)
        for layer in self.decoder:
            x = layer(x, memory, src_mask)
        hidden_states: Tensor = self.decoder_norm(x)
        return hidden_states

    def init_state(self, src: Int[Tensor, "batch src"], beam_size: int = 1) -> "DecoderState":
        """Encode ``src`` and return the state for decoding ``beam_size`` hypotheses per row."""
        memory, src_mask = self.encode(src)
        caches = [layer.init_cache(memory, beam_size) for layer in self.decoder_layers()]
        return DecoderState(src_mask, caches, beam_size)

    def step(
        self, tokens: Int[Tensor, "batch hypothesis"], state: "DecoderState"
    ) -> Float[Tensor, "batch hypothesis d_model"]:
        """Feed ``tokens`` and return the decoder's output; ``state`` advances by a position."""
        tgt_mask = state.extend(tokens.size(1))
        x = self.tgt_embedding.at(tokens, state.position)
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
        """Compute no gradients of the weights of these parts, as ``training.freeze`` names them."""
        modules: dict[str, tuple[nn.Module, ...]] = {
            "embeddings": (self.src_embedding, self.tgt_embedding),
            "encoder": (self.encoder, self.encoder_norm),
            "decoder": (self.decoder, self.decoder_norm),
        }
        for part in parts:
            for module in modules[part]:
                module.requires_grad_(False)

    def decoder_layers(self) -> list[DecoderLayer]:
        """Return the decoder's layers, typed."""
        return cast("list[DecoderLayer]", list(self.decoder))


@dataclass
class DecoderState:
    """Incremental decoding state of a batch.

    Beam search reorders hypotheses without moving their caches: ``cache_indirection`` has the place
    in the beam at which each hypothesis' token of each position was cached.
    """

    src_mask: Bool[Tensor, "batch 1 1 src"]
    caches: list[LayerCache]
    beam_size: int = 1
    position: int = 0
    cache_indirection: Int[Tensor, "batch hypothesis position"] | None = None

    def extend(self, hypotheses: int) -> Bool[Tensor, "batch 1 hypothesis written"] | None:
        """Add a position; return the mask of keys that each hypothesis attends to, None for all."""
        if self.beam_size == 1:
            return None
        places = torch.arange(self.beam_size, device=self.src_mask.device)
        here = places[None, :hypotheses, None].expand(self.src_mask.size(0), -1, -1)
        self.cache_indirection = (
            here
            if self.cache_indirection is None
            else torch.cat((self.cache_indirection, here), dim=2)
        )
        return (self.cache_indirection[..., None] == places).flatten(2)[:, None]

    def reorder(self, parents: Int[Tensor, "batch hypothesis"]) -> None:
        """Let each hypothesis continue the one at place ``parents`` of the beam."""
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
    """Build a model whose initial weights depend on ``seed`` alone."""
    torch.manual_seed(seed)
    return Transformer(config, src_size, tgt_size, pad_id)


def count_parameters(model: nn.Module, trained_only: bool = False) -> int:
    """Return the number of parameters, tied ones counted once; or of those that are not frozen."""
    return sum(
        parameter.numel()
        for parameter in model.parameters()
        if parameter.requires_grad or not trained_only
    )


# --- weights by name, tied ones once --------------------------------------------------------------


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights, sharing memory with the model."""
    return {name: weight.detach() for name, weight in model.named_parameters()}


def check_fit(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Check that ``weights`` fit ``model``, which may be on the 'meta' device.

    Raises:
        CheckpointError: names or shapes differ.
    """
    own = weights_of(model)
    for name in sorted(own.keys() ^ weights.keys()):
        where = "the checkpoint" if name in own else "the model"
        raise CheckpointError(f"the checkpoint does not fit the model: {where} has no '{name}'")
    for name, weight in own.items():
        if weight.shape != weights[name].shape:
            raise CheckpointError(
                f"the checkpoint does not fit the model: '{name}' is "
                f"{tuple(weights[name].shape)}, the model's is {tuple(weight.shape)}"
            )


def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy ``weights`` into ``model``.

    Raises:
        CheckpointError: names or shapes differ.
    """
    check_fit(model, weights)
    with torch.no_grad():
        for name, weight in weights_of(model).items():
            weight.copy_(weights[name])
