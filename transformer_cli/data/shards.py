"""Training text in shards, and how their pairs are put into batches by their lengths.

Light to import: no torch.
"""

from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np

from transformer_cli.data.store import EncodedStore, EncodedText, Lengths

SHARD_PAIRS = 131_072
"""Maximum of pairs of a shard: some 15 MB of captions, and enough to bucket by length."""


class ShardedText(Protocol):
    """Text to train on, in shards that are even samples of it."""

    @property
    def num_shards(self) -> int:
        """Number of shards."""

    def shard_lengths(self, shard: int) -> Lengths:
        """Return the most tokens that each pair of a shard may have in any epoch."""

    def draw(self, shard: int, seed: int, epoch: int) -> EncodedText:
        """Return the pairs of a shard in an epoch, a pure function of the arguments."""


class ShardedStore:
    """The pairs of a store that are short enough to train on, in shards; none is kept in memory.

    Shard k of K has the pages k, k + K, k + 2K, …, so each is an even sample of the corpus,
    whatever its order. ``shard_pairs`` is a multiple of the pairs of a page. Here each epoch has
    every short pair once; an extension may inherit, to draw them otherwise.
    """

    def __init__(
        self, store: EncodedStore, max_length: int, shard_pairs: int = SHARD_PAIRS
    ) -> None:
        self.store = store
        self._max_length = max_length
        self.num_shards = -(-store.num_pages // (shard_pairs // store.record.page_pairs))

    @cached_property
    def num_pairs(self) -> int:
        """Number of short pairs."""
        return sum(len(self.find_short(self.read_lengths(n))) for n in range(self.num_shards))

    def shard_lengths(self, shard: int) -> Lengths:
        """Return the lengths of the short pairs."""
        lengths = self.read_lengths(shard)
        short = self.find_short(lengths)
        return Lengths(lengths.src[short], lengths.tgt[short])

    def draw(self, shard: int, seed: int, epoch: int) -> EncodedText:
        """Return the short pairs."""
        text = self.read(shard)
        return text.take(self.find_short(text.lengths))

    def rows(self) -> Iterable[tuple[str, str]]:
        """Return labels and texts for the summary of a training."""
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
        """Return the places of the pairs that are short enough."""
        return np.flatnonzero(np.maximum(*lengths) <= self._max_length)


def plan_epoch(
    lengths: Lengths, batch_tokens: int, seed: int, epoch: int, shard: int = 0
) -> list[np.ndarray]:
    """Return the batches of one epoch as arrays of sentence indices, a function of the arguments.

    Sentences of similar length on both sides share a batch; ties and the order of batches are
    shuffled again each epoch. ``batch_tokens`` is the most that a side of a batch may have, EOS and
    padding included; a longer sentence is a batch of its own.
    """
    random = np.random.Generator(np.random.PCG64([seed, epoch, shard]))
    # Shuffles pairs of equal lengths.
    ties = random.random(len(lengths.src))
    src, tgt, zigzag = _sort_keys(lengths)
    order = np.lexsort((ties, zigzag, tgt))
    batches = cut_by_tokens(order, np.maximum(src, tgt), batch_tokens)
    return [batches[index] for index in random.permutation(len(batches))]


def count_batches(lengths: Lengths, batch_tokens: int) -> int:
    """Return how many batches ``plan_epoch`` makes, which is the same in every epoch."""
    # Same order but for ties, which do not change the count: sorting one combined key is faster.
    src, tgt, zigzag = _sort_keys(lengths)
    offset = int(src.max(initial=0))
    radix = 2 * offset + 1
    tgt, zigzag = np.divmod(np.sort(tgt * radix + zigzag + offset), radix)
    longest = np.maximum(np.abs(zigzag - offset), tgt)
    return len(batch_ends(longest, batch_tokens))


def _sort_keys(lengths: Lengths) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return lengths with EOS, and the key that orders pairs of one target length."""
    src, tgt = lengths.src + 1, lengths.tgt + 1
    # Zigzag: source lengths rise where the target's is even and fall where it is odd, so that
    # neighbours are similar across a change of target length too.
    return src, tgt, np.where(tgt % 2 == 0, src, -src)


def cut_by_tokens(order: np.ndarray, lengths: np.ndarray, batch_tokens: int) -> list[np.ndarray]:
    """Return slices of ``order`` of at most ``batch_tokens`` when padded to their longest."""
    ends = batch_ends(lengths[order], batch_tokens)
    return [order[start:end] for start, end in pairwise([0, *ends])]


def batch_ends(lengths: np.ndarray, batch_tokens: int) -> list[int]:
    """Return the index after each batch's last sentence, for sentences in this order."""
    if not len(lengths):
        return []
    # Work on runs of equal lengths: a shard has ten times fewer of them than sentences.
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
