"""Search in buckets of like shapes, each with buffers of its own and its CUDA graphs."""

import math
from functools import cache

import torch
from jaxtyping import Int
from torch import Tensor

from transformer_cli.inference.hypotheses import Hypothesis, SearchOptions
from transformer_cli.inference.static_beam import StaticBeamSearch
from transformer_cli.inference.static_greedy import StaticGreedySearch
from transformer_cli.inference.static_search import Bucket, StaticSearch
from transformer_cli.model.graphs import GraphPool
from transformer_cli.model.transformer import Transformer

_MOST_BUCKETS = 64
_MOST_MEMORY = 1 / 8  # of the GPU's, for their caches together


class BucketedSearch:
    """Searches as ``search`` does, always with the same model and in the same precision.

    The first batch of a bucket runs without graphs, since many buckets are never needed again. The
    buckets used least recently are freed.
    """

    def __init__(self) -> None:
        self._searches: dict[Bucket, StaticSearch] = {}  # the one used last is the last
        self._pool: GraphPool | None = None

    def __call__(
        self,
        model: Transformer,
        src: Int[Tensor, "batch src"],
        max_lengths: Int[Tensor, " batch"],
        options: SearchOptions,
        prefixes: Int[Tensor, "batch prefix"] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses for each row of ``src``; see ``search``."""
        bucket = choose_bucket(model, src, max_lengths, options, prefixes is not None)
        try:
            searching = self._searches.pop(bucket, None)
            if searching is None:
                searching = make_static_search(model, bucket)
            elif not searching.is_captured:
                self._pool = self._pool or GraphPool(model.output.weight.device)
                searching.capture(self._pool)
            found = searching.run(src, max_lengths, prefixes)
        except BaseException:
            self._searches.clear()  # out of memory, there is room then to try again
            raise
        self._searches[bucket] = searching
        self._free_oldest(_most_bytes(model.output.weight.device))
        return found

    def _free_oldest(self, most_bytes: float) -> None:
        while len(self._searches) > 1 and (
            len(self._searches) > _MOST_BUCKETS
            or sum(each.nbytes for each in self._searches.values()) > most_bytes
        ):
            del self._searches[next(iter(self._searches))]


@cache
def _most_bytes(device: torch.device) -> float:
    if device.type != "cuda":
        return math.inf
    return _MOST_MEMORY * torch.cuda.get_device_properties(device).total_memory


def make_static_search(model: Transformer, bucket: Bucket) -> StaticSearch:
    """Return the search of a bucket, with its buffers."""
    greedy = bucket.options.beam_size == 1
    return (StaticGreedySearch if greedy else StaticBeamSearch)(model, bucket)


def choose_bucket(
    model: Transformer,
    src: Int[Tensor, "batch src"],
    max_lengths: Int[Tensor, " batch"],
    options: SearchOptions,
    has_prefixes: bool,
) -> Bucket:
    """Return the smallest bucket that a batch fits into."""
    capacity = _round_up(int(max_lengths.max()), 16)
    return Bucket(
        rows=_round_rows(len(src)),
        # Multiples of 8, since fused attention copies masks of other widths.
        src_length=min(_round_up(src.size(1), 8), model.src_embedding.positions.max_positions),
        capacity=min(capacity, model.tgt_embedding.positions.max_positions),
        has_prefixes=has_prefixes,
        options=options,
    )


def _round_rows(rows: int) -> int:
    """Round up to a power of two, and beyond 16 by less than 8 or an eighth."""
    if rows <= 16:
        return 1 << (rows - 1).bit_length()
    return _round_up(rows, max(8, 1 << (rows.bit_length() - 4)))


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
