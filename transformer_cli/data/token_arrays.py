"""Sentences of token ids in flat arrays, and how they are put into batches by their lengths.

Light to import: no torch.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from transformer_cli.data.corpus import ParallelText
from transformer_cli.text.protocol import Tokenizers

T = TypeVar("T")

PERCENTILES = (50, 90, 99, 100)
"""The percentiles of lengths that are printed."""


class SrcTgt(NamedTuple, Generic[T]):
    """A value of the source side and one of the target side."""

    src: T
    tgt: T


Lengths = SrcTgt[np.ndarray]
"""Tokens of each pair's source and target, without BOS and EOS."""


@dataclass(frozen=True)
class TokenArray:
    """Many sentences of token ids in one flat array."""

    ids: np.ndarray
    """All tokens, sentence after sentence, without BOS and EOS."""
    offsets: np.ndarray
    """Where each sentence starts, and at the end the number of tokens."""

    @classmethod
    def from_sentences(cls, sentences: "Iterable[Sequence[int] | array[int]]") -> "TokenArray":
        """Build an array of ``sentences``, iterated over once."""
        rows = list(sentences)
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        ids = np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum()))
        return cls.from_lengths(ids, lengths)

    @classmethod
    def from_lengths(cls, ids: np.ndarray, lengths: np.ndarray) -> "TokenArray":
        """Build an array of sentences of these lengths from their concatenated ``ids``."""
        return cls(ids, np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(lengths))))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each sentence."""
        return np.diff(self.offsets)

    def take(self, indices: np.ndarray) -> "TokenArray":
        """Return the sentences at ``indices``, in that order."""
        starts = self.offsets[indices]
        lengths = self.offsets[indices + 1] - starts
        # Where each token comes from: its sentence's start, minus where that sentence goes to.
        shifts = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
        return TokenArray.from_lengths(self.ids[shifts + np.arange(len(shifts))], lengths)

    @classmethod
    def concatenate(cls, parts: "Sequence[TokenArray]") -> "TokenArray":
        """Return the sentences of all ``parts``, in order."""
        ids = [np.zeros(0, dtype=np.int32), *(part.ids for part in parts)]
        lengths = [np.zeros(0, dtype=np.int64), *(part.lengths for part in parts)]
        return cls.from_lengths(np.concatenate(ids), np.concatenate(lengths))


@dataclass(frozen=True)
class EncodedText:
    """Parallel text as token ids: sentence n of one side translates sentence n of the other.

    As text to train on, it is a single shard; see ``batches.ShardedText``.
    """

    src: TokenArray
    tgt: TokenArray
    num_shards = 1

    def __len__(self) -> int:
        return len(self.src)

    @property
    def lengths(self) -> Lengths:
        """Tokens of each pair's source and target."""
        return Lengths(self.src.lengths, self.tgt.lengths)

    def take(self, indices: np.ndarray) -> "EncodedText":
        """Return the pairs at ``indices``, in that order."""
        return EncodedText(self.src.take(indices), self.tgt.take(indices))

    @classmethod
    def concatenate(cls, parts: "Sequence[EncodedText]") -> "EncodedText":
        """Return the pairs of all ``parts``, in order."""
        src, tgt = ([getattr(part, side) for part in parts] for side in ("src", "tgt"))
        return cls(TokenArray.concatenate(src), TokenArray.concatenate(tgt))

    def shard(self, number: int) -> "EncodedText":
        """Return the text itself."""
        return self

    def sampler(self, number: int) -> "EveryPair":
        """Return what draws each pair once an epoch."""
        return EveryPair(self.lengths)


class Sampler(Protocol):
    """Draws the pairs of a shard for each epoch."""

    @property
    def lengths(self) -> Lengths:
        """Most tokens of a pair that each draw may pick."""

    def pick(self, seed: int, epoch: int, shard: int) -> np.ndarray:
        """Return the place in the shard of each draw's pair, a pure function of the arguments."""


class EveryPair(NamedTuple):
    """Draws each pair of a shard once an epoch."""

    lengths: Lengths

    def pick(self, seed: int, epoch: int, shard: int) -> np.ndarray:
        """Return the places of all pairs."""
        return np.arange(len(self.lengths.src))


class Mix(Protocol):
    """What sets parts of a training text apart: tokens before sources, and how often pairs count.

    Pairs are given by their places in the whole text. Equal mixes have the same ``repr``.
    """

    def count_tags(self, pairs: np.ndarray) -> np.ndarray:
        """Return the number of tokens put before each pair's source."""

    def add_tags(self, text: "EncodedText", pairs: np.ndarray) -> "EncodedText":
        """Return ``text``, which are these pairs, with those tokens."""

    def build_sampler(self, lengths: Lengths, pairs: np.ndarray) -> Sampler:
        """Return what draws from these pairs of a shard."""

    def summarize(self) -> Iterable[tuple[str, str]]:
        """Yield labels and texts for the summary of a training."""


def encode_pairs(
    pairs: Iterable[tuple[str, str]],
    tokenizers: Tokenizers,
    tags: Iterable[str | None] | None = None,
) -> EncodedText:
    """Return pairs as token ids, with the ids of the tags, if any, before the sources."""
    src_rows, tgt_rows = [], []
    for (src, tgt), tag in zip(pairs, tags or repeat(None), strict=False):
        src_ids, tgt_ids = tokenizers.encode_pair(src, tgt)
        src_ids = [*tokenizers.start(tag), *src_ids]
        src_rows.append(array("i", src_ids))  # a list would take seven times as much memory
        tgt_rows.append(array("i", tgt_ids))
    return EncodedText(TokenArray.from_sentences(src_rows), TokenArray.from_sentences(tgt_rows))


def encode_text(text: ParallelText, tokenizers: Tokenizers) -> EncodedText:
    """Return both sides of ``text`` as token ids, a source's tag before it."""
    pairs = zip(text.src, text.tgt, strict=False)
    return encode_pairs(pairs, tokenizers, text.tags)


def percentiles(counts: np.ndarray, shares: Sequence[float]) -> list[int]:
    """Return percentiles, of 1 to 100, of values of which ``counts[n]``, not all 0, are n."""
    values = np.arange(len(counts))
    points = np.percentile(values, shares, weights=counts, method="inverted_cdf")
    return [int(point) for point in points]


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
    batches = list(cut_by_tokens(order, np.maximum(src, tgt), batch_tokens))
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


def cut_by_tokens(
    order: np.ndarray, lengths: np.ndarray, batch_tokens: int
) -> Iterator[np.ndarray]:
    """Yield slices of ``order`` that take at most ``batch_tokens`` when padded to their longest."""
    start = 0
    for end in batch_ends(lengths[order], batch_tokens):
        yield order[start:end]
        start = end


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
