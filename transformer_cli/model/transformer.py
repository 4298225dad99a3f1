"""The encoder-decoder Transformer (Vaswani et al. 2017, figure 1)."""

from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.embeddings import Embedding
from transformer_cli.model.layers import DecoderLayer, EncoderLayer, LayerCache
from transformer_cli.model.products import Product


class Transformer(nn.Module):
    """Token ids of a source and of the target so far in, logits of the next target token out.

    Args:
        config: sizes and form.
        src_size: number of source token ids.
        tgt_size: number of target token ids; equal to ``src_size`` if all weights are tied.
        pad_id: the id that fills short rows up; never looked at.
    """

    def __init__(self, config: ModelConfig, src_size: int, tgt_size: int, pad_id: int) -> None:
        super().__init__()
        self.pad_id = pad_id
        self.tgt_size = tgt_size
        self.src_embedding = Embedding(config, src_size)
        self.tgt_embedding = Embedding(config, tgt_size)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_decoder_layers))
        # Pre-norm leaves the sum of all sublayers unnormalised: one more norm ends each stack.
        final_norm = nn.LayerNorm if config.norm == "pre" else nn.Identity
        self.encoder_norm = final_norm(config.d_model)
        self.decoder_norm = final_norm(config.d_model)
        self.output = nn.Linear(config.d_model, tgt_size)
        self._to_logits = Product(self.output)
        self._initialise(config)

    def _initialise(self, config: ModelConfig) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                # Xavier here costs a tied model most of its first epochs (design/method.md).
                nn.init.normal_(module.weight, std=config.d_model**-0.5)
        if config.tying != "none":
            self.output.weight = self.tgt_embedding.tokens.weight
        if config.tying == "all":
            self.src_embedding.tokens.weight = self.tgt_embedding.tokens.weight

    def forward(
        self, src: Int[Tensor, "batch src"], tgt_in: Int[Tensor, "batch tgt"]
    ) -> Float[Tensor, "batch tgt tgt_size"]:
        """Logits of the token after each position of ``tgt_in``."""
        return self.logits(self.features(src, tgt_in))

    def features(
        self, src: Int[Tensor, "batch src"], tgt_in: Int[Tensor, "batch tgt"]
    ) -> Float[Tensor, "batch tgt d_model"]:
        """What the output layer turns into the logits of ``forward``."""
        memory, src_mask = self.encode(src)
        return self.decode(tgt_in, memory, src_mask)

    def encode(
        self, src: Int[Tensor, "batch src"]
    ) -> tuple[Float[Tensor, "batch src d_model"], Bool[Tensor, "batch 1 1 src"]]:
        """The memory of a source, and the mask that is True where it may be attended to."""
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
        """The decoder's result at each position of ``tgt_in``, which padding may follow."""
        x = self.tgt_embedding(tgt_in)
        for layer in self.decoder:
            x = layer(x, memory, src_mask)
        features: Tensor = self.decoder_norm(x)
        return features

    def start(self, src: Int[Tensor, "batch src"], beam_size: int = 1) -> "DecoderState":
        """Encode ``src`` and be ready to decode up to ``beam_size`` hypotheses of each row."""
        memory, src_mask = self.encode(src)
        caches = [layer.start(memory, beam_size) for layer in self.decoder_layers()]
        return DecoderState(src_mask, caches, beam_size)

    def step(
        self, tokens: Int[Tensor, "batch hypothesis"], state: "DecoderState"
    ) -> Float[Tensor, "batch hypothesis d_model"]:
        """What becomes the logits of the token after ``tokens``, given all that went before."""
        tgt_mask = state.written(tokens.size(1))
        x = self.tgt_embedding.at(tokens, state.position)
        for layer, cache in zip(self.decoder_layers(), state.caches, strict=True):
            x = layer.step(x, state.position, cache, tgt_mask, state.src_mask)
        state.position += 1
        features: Tensor = self.decoder_norm(x)
        return features

    def logits(self, features: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch tgt_size"]:
        """The output layer, on what ``features`` or ``step`` gave."""
        return self._to_logits(features)

    def decoder_layers(self) -> list[DecoderLayer]:
        """The decoder's layers, by their type."""
        return cast("list[DecoderLayer]", list(self.decoder))


@dataclass
class DecoderState:
    """Where a batch stands between two decoding steps.

    Hypotheses change places without moving what they have cached: ``lineage`` tells in which place
    each one's token of each position was written.
    """

    src_mask: Bool[Tensor, "batch 1 1 src"]
    caches: list[LayerCache]
    beam_size: int = 1
    position: int = 0
    lineage: Int[Tensor, "batch hypothesis position"] | None = None

    def written(self, hypotheses: int) -> Bool[Tensor, "batch 1 hypothesis written"] | None:
        """Which keys each hypothesis may see, once those of ``position`` are there; None: all."""
        if self.beam_size == 1:
            return None
        places = torch.arange(self.beam_size, device=self.src_mask.device)
        here = places[None, :hypotheses, None].expand(self.src_mask.size(0), -1, -1)
        self.lineage = here if self.lineage is None else torch.cat((self.lineage, here), dim=2)
        return (self.lineage[..., None] == places).flatten(2)[:, None]

    def reorder(self, parents: Int[Tensor, "batch hypothesis"]) -> None:
        """Let each hypothesis go on from the one that stood in place ``parents``."""
        if self.lineage is not None:
            places = parents[..., None].expand(-1, -1, self.position)
            self.lineage = self.lineage.gather(1, places)

    def keep(self, rows: Int[Tensor, " rows"]) -> None:
        """Keep ``rows`` of the batch, in that order."""
        self.src_mask = self.src_mask[rows]
        if self.lineage is not None:
            self.lineage = self.lineage[rows]
        for cache in self.caches:
            cache.keep(rows)


def count_parameters(model: nn.Module) -> int:
    """Number of weights, tied ones counted once."""
    return sum(parameter.numel() for parameter in model.parameters())


def build_model(
    config: ModelConfig, src_size: int, tgt_size: int, pad_id: int, seed: int
) -> Transformer:
    """A new model whose weights depend on ``seed`` alone."""
    torch.manual_seed(seed)
    return Transformer(config, src_size, tgt_size, pad_id)
