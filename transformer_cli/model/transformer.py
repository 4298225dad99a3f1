"""The encoder-decoder Transformer (Vaswani et al. 2017, figure 1)."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.embeddings import Embedding
from transformer_cli.model.layers import DecoderLayer, EncoderLayer, LayerCache
from transformer_cli.model.linear import FusedLinear
from transformer_cli.model.static_state import StaticDecoderState


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
        final_norm = nn.LayerNorm if config.norm == "pre" else nn.Identity
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

    def init_static_state(
        self, rows: int, src_length: int, capacity: int, beam_size: int
    ) -> StaticDecoderState:
        """Allocate a state of fixed shapes, for ``start`` to fill.

        Args:
            rows: sentences.
            src_length: positions of the source, padding included.
            capacity: positions of the target.
            beam_size: hypotheses of each sentence, at every step.
        """
        # Sinusoids are computed for as many positions as are asked for: no step can do so.
        positions = self.tgt_embedding.positions(0, capacity).detach()
        return StaticDecoderState.allocate(
            self.decoder_layers(), positions, rows, src_length, beam_size
        )

    def start(self, src: Int[Tensor, "batch src"], state: StaticDecoderState) -> None:
        """Encode ``src`` into ``state``, before the first step."""
        memory, src_mask = self.encode(src)
        keys_values = [layer.cross_attention.keys_values(memory) for layer in self.decoder_layers()]
        state.start(keys_values, src_mask)

    def step(
        self,
        tokens: Int[Tensor, "batch hypothesis"],
        state: "DecoderState | StaticDecoderState",
    ) -> Float[Tensor, "batch hypothesis d_model"]:
        """Feed ``tokens`` and return the decoder's output; ``state`` advances by a position."""
        tgt_mask = state.extend(tokens.size(1))
        x = state.embed(self.tgt_embedding, tokens)
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

    Beam search reorders hypotheses without moving their caches: ``cache_indirection`` has the beam
    slot in which each hypothesis' token of each position was cached.
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
        slots = torch.arange(self.beam_size, device=self.src_mask.device)
        here = slots[None, :hypotheses, None].expand(self.src_mask.size(0), -1, -1)
        self.cache_indirection = (
            here
            if self.cache_indirection is None
            else torch.cat((self.cache_indirection, here), dim=2)
        )
        return (self.cache_indirection[..., None] == slots).flatten(2)[:, None]

    def embed(
        self, embedding: Embedding, tokens: Int[Tensor, "batch hypothesis"]
    ) -> Float[Tensor, "batch hypothesis d_model"]:
        """Embed tokens of this position."""
        return embedding.at(tokens, self.position)

    def reorder(self, parents: Int[Tensor, "batch hypothesis"]) -> None:
        """Let each hypothesis continue the one in slot ``parents``."""
        if self.cache_indirection is not None:
            slots = parents[..., None].expand(-1, -1, self.position)
            self.cache_indirection = self.cache_indirection.gather(1, slots)

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keep these rows of the batch, in this order."""
        self.src_mask = self.src_mask[rows]
        if self.cache_indirection is not None:
            self.cache_indirection = self.cache_indirection[rows]
        for cache in self.caches:
            cache.select(rows)


def count_parameters(model: nn.Module, trained_only: bool = False) -> int:
    """Return the number of parameters, tied ones counted once; or of those that are not frozen."""
    return sum(
        parameter.numel()
        for parameter in model.parameters()
        if parameter.requires_grad or not trained_only
    )


def build_model(
    config: ModelConfig, src_size: int, tgt_size: int, pad_id: int, seed: int
) -> Transformer:
    """Build a model whose initial weights depend on ``seed`` alone."""
    torch.manual_seed(seed)
    return Transformer(config, src_size, tgt_size, pad_id)
