"""Training text in shards, and how to put a shard's pairs into batches of similar length.

This module loads fast, because it does not import torch.
"""

from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np

from transformer_cli.data.store import EncodedStore, EncodedText, Lengths

SHARD_PAIRS = 131_072
"""Maximum number of pairs in a shard: about 15 MB of captions, and enough to sort by length."""


class ShardedText(Protocol):
    """Training text in shards, each an even sample of the text."""

    @property
    def num_shards(self) -> int:
        """The number of shards."""

    def shard_lengths(self, shard: int) -> Lengths:
        """Return each pair's maximum number of source and of target tokens in any epoch."""

    def draw(self, shard: int, seed: int, epoch: int) -> EncodedText:
        """Return a shard's pairs for an epoch; the same arguments always give the same pairs."""


class ShardedStore:
    """The pairs of a store that are short enough to train on, in shards that stay on disk.

    Shard k of K has the pages k, k + K, k + 2K, …, so each shard is an even sample of the corpus,
    however it is sorted. ``shard_pairs`` must be a multiple of the pairs per page. In this class,
    every epoch has each short pair once; subclasses in extensions may draw pairs differently.
    """

    def __init__(
        self, store: EncodedStore, max_length: int, shard_pairs: int = SHARD_PAIRS
    ) -> None:
        self.store = store
        self._max_length = max_length
        self.num_shards = -(-store.num_pages // (shard_pairs // store.record.page_pairs))

    @cached_property
    def num_pairs(self) -> int:
        """The number of short pairs in all shards."""
        return sum(len(self.find_short(self.read_lengths(n))) for n in range(self.num_shards))

    def shard_lengths(self, shard: int) -> Lengths:
        """Return the lengths of a shard's short pairs."""
        lengths = self.read_lengths(shard)
        short = self.find_short(lengths)
        return Lengths(lengths.src[short], lengths.tgt[short])

    def draw(self, shard: int, seed: int, epoch: int) -> EncodedText:
        """Return a shard's short pairs, which are the same in every epoch."""
        text = self.read(shard)
        return text.take(self.find_short(text.lengths))

    def rows(self) -> Iterable[tuple[str, str]]:
        """Return rows (label, text) for the summary before training."""
        return ()

    def pages(self, shard: int) -> range:
        """Return the numbers of a shard's pages."""
        return range(shard, self.store.num_pages, self.num_shards)

    def read(self, shard: int) -> EncodedText:
        """Read all pairs of a shard."""
        return EncodedText.concatenate([*self.store.read_pages(self.pages(shard))])

    def read_lengths(self, shard: int) -> Lengths:
        """Read the lengths of all pairs of a shard."""
        sides = zip(*self.store.read_lengths(self.pages(shard)), strict=True)
        return Lengths(*map(np.concatenate, sides))

    def find_short(self, lengths: Lengths) -> np.ndarray:
        """Return the indices of the pairs that are short enough."""
        return np.flatnonzero(np.maximum(*lengths) <= self._max_length)


def plan_epoch(
    lengths: Lengths, batch_tokens: int, seed: int, epoch: int, shard: int = 0
) -> list[np.ndarray]:
    """Return a shard's batches for an epoch, each an array of indices of pairs.

    The result depends only on the arguments. A batch has pairs of similar length on both sides.
    Every epoch shuffles the batches, and pairs of equal length, in a new way. Each side of a batch
    has at most ``batch_tokens`` ids, with EOS and padding; a longer pair is a batch by itself.
    """
    random = np.random.Generator(np.random.PCG64([seed, epoch, shard]))
    # These numbers shuffle pairs of equal length.
    ties = random.random(len(lengths.src))
    src, tgt, zigzag = _sort_keys(lengths)
    order = np.lexsort((ties, zigzag, tgt))
    batches = cut_by_tokens(order, np.maximum(src, tgt), batch_tokens)
    return [batches[index] for index in random.permutation(len(batches))]


def count_batches(lengths: Lengths, batch_tokens: int) -> int:
    """Return how many batches ``plan_epoch`` makes, which is the same in every epoch."""
    # It is faster to sort one combined key. Only ties are in another order, which does not matter.
    src, tgt, zigzag = _sort_keys(lengths)
    offset = int(src.max(initial=0))
    radix = 2 * offset + 1
    tgt, zigzag = np.divmod(np.sort(tgt * radix + zigzag + offset), radix)
    longest = np.maximum(np.abs(zigzag - offset), tgt)
    return len(batch_ends(longest, batch_tokens))


def _sort_keys(lengths: Lengths) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return both lengths, EOS included, and a key to sort pairs of equal target length by."""
    src, tgt = lengths.src + 1, lengths.tgt + 1
    # Zigzag: source lengths rise if the target length is even and fall if it is odd. So neighbours
    # have similar lengths even where the target length changes.
    return src, tgt, np.where(tgt % 2 == 0, src, -src)


def cut_by_tokens(order: np.ndarray, lengths: np.ndarray, batch_tokens: int) -> list[np.ndarray]:
    """Cut ``order``, sentence indices, into slices of at most ``batch_tokens`` with padding."""
    ends = batch_ends(lengths[order], batch_tokens)
    return [order[start:end] for start, end in pairwise([0, *ends])]


def batch_ends(lengths: np.ndarray, batch_tokens: int) -> list[int]:
    """Return each batch's end, the index after its last sentence, given sentence ``lengths``."""
    if not len(lengths):
        return []
    # Process runs of equal lengths together, as a shard has ten times more sentences than runs.
    firsts = np.flatnonzero(np.diff(lengths, prepend=lengths[0] - 1))
    run_ends = np.append(firsts[1:], len(lengths)).tolist()
    ends = []
    start = longest = 0
    for first, end, length in zip(firsts.tolist(), run_ends, lengths[firsts].tolist(), strict=True):
        longest = max(longest, length)
        if first > start and longest * (first - start + 1) > batch_tokens:
            ends.append(first)
            start, longest = first, length
        while end - start > (rows := max(1, batch_tokens // max(1, longest))):
            start, longest = start + rows, length
            ends.append(start)
    return [*ends, len(lengths)]
