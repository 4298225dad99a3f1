"""Decoding state of fixed shapes: every step does the same to the same memory.

A step then needs nothing of the host, so a GPU can replay it as a CUDA graph.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transformer_cli.model.embeddings import Embedding
from transformer_cli.model.layers import DecoderLayer, LayerCache
from transformer_cli.model.linear import compute_dtype


@dataclass(kw_only=True)
class StaticLayerCache(LayerCache):
    """Key-value cache of fixed capacity."""

    position: Int[Tensor, "1"]
    """Where to write next: the state's, on the device."""

    def write(
        self,
        keys: Float[Tensor, "batch heads hypothesis d_head"],
        values: Float[Tensor, "batch heads hypothesis d_head"],
    ) -> tuple[
        Float[Tensor, "batch heads written d_head"], Float[Tensor, "batch heads written d_head"]
    ]:
        """Store the keys and values of this position and return those of all, later ones too."""
        self.keys.index_copy_(2, self.position, keys[:, :, None])
        self.values.index_copy_(2, self.position, values[:, :, None])
        return self.keys.flatten(2, 3), self.values.flatten(2, 3)

    def start(self, memory_keys: Tensor, memory_values: Tensor) -> None:
        """Look back on another memory, with nothing written."""
        self.memory_keys.copy_(memory_keys)
        self.memory_values.copy_(memory_values)
        # What is masked is still multiplied, by zero: it must not be NaN.
        self.keys.zero_()
        self.values.zero_()


@dataclass
class StaticDecoderState:
    """Incremental decoding state of fixed shapes; ``DecoderState`` grows instead.

    Masks are 0 where hypotheses may attend, and -inf elsewhere: fused attention converts booleans
    to that at each call. ``tgt_mask`` is what ``cache_indirection`` amounts to.
    """

    src_mask: Float[Tensor, "batch 1 1 src"]
    tgt_mask: Float[Tensor, "batch 1 beam written"]
    own_slots: Float[Tensor, "batch beam 1 beam"]
    """The mask of one position for hypotheses that each attend to their own slot."""
    positions: Float[Tensor, "capacity d_model"]
    position: Int[Tensor, "1"]
    caches: Sequence[StaticLayerCache]

    @classmethod
    def allocate(
        cls,
        layers: Sequence[DecoderLayer],
        positions: Float[Tensor, "capacity d_model"],
        rows: int,
        src_length: int,
        beam_size: int,
    ) -> "StaticDecoderState":
        """Allocate a state for ``start`` to fill; see ``Transformer.init_static_state``."""
        capacity, d_model = positions.shape
        heads = layers[0].self_attention.num_heads
        like = positions.new_empty(0, dtype=compute_dtype(positions))
        position = torch.zeros(1, dtype=torch.int64, device=positions.device)
        memory_shape = (rows, heads, src_length, d_model // heads)
        shape = (rows, heads, capacity, beam_size, d_model // heads)
        return cls(
            src_mask=like.new_empty(rows, 1, 1, src_length),
            tgt_mask=like.new_empty(rows, 1, beam_size, capacity * beam_size),
            own_slots=torch.eye(beam_size, device=like.device)
            .log()
            .to(like)[:, None]
            .expand(rows, -1, -1, -1),
            positions=positions,
            position=position,
            caches=[
                StaticLayerCache(
                    memory_keys=like.new_empty(memory_shape),
                    memory_values=like.new_empty(memory_shape),
                    keys=like.new_empty(shape),
                    values=like.new_empty(shape),
                    position=position,
                )
                for _ in layers
            ],
        )

    @property
    def nbytes(self) -> int:
        """Memory of the caches."""
        return sum(
            each.nbytes
            for cache in self.caches
            for each in (cache.memory_keys, cache.memory_values, cache.keys, cache.values)
        )

    def start(
        self, keys_values: Sequence[tuple[Tensor, Tensor]], src_mask: Bool[Tensor, "batch 1 1 src"]
    ) -> None:
        """Look back on another memory, given as its keys and values in each layer."""
        for cache, (keys, values) in zip(self.caches, keys_values, strict=True):
            cache.start(keys, values)
        self.src_mask.zero_().masked_fill_(~src_mask, float("-inf"))
        self.tgt_mask.fill_(float("-inf"))
        self.position.zero_()

    def extend(self, hypotheses: int) -> Float[Tensor, "batch 1 beam written"]:
        """Add a position; return the mask of keys that each hypothesis attends to."""
        by_position = self.tgt_mask.view(-1, hypotheses, len(self.positions), hypotheses)
        by_position.index_copy_(2, self.position, self.own_slots)
        return self.tgt_mask

    def embed(
        self, embedding: Embedding, tokens: Int[Tensor, "batch beam"]
    ) -> Float[Tensor, "batch beam d_model"]:
        """Embed tokens of this position."""
        return embedding.add_positions(tokens, self.positions.index_select(0, self.position))

    def reorder(self, parents: Int[Tensor, "batch beam"]) -> None:
        """Let each hypothesis continue the one in slot ``parents``."""
        slots = parents[:, None, :, None].expand_as(self.tgt_mask)
        self.tgt_mask.copy_(self.tgt_mask.gather(2, slots))
