"""Shards of a corpus, each an even sample of it that fits into memory; weights of its sources."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from transformer_cli.artifact import Record, read_record, write_record
from transformer_cli.data.store import EncodedStore
from transformer_cli.data.token_arrays import EncodedText, Lengths, TokenArray, count_batches

SHARD_PAIRS = 131_072
"""Maximum of pairs of a shard: some 15 MB of captions, and enough to bucket by length."""
_COUNTS = "batches.json"

# --- sources -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainingMix:
    """Weight and tag of each source of a training text, whose pairs are in this order.

    Attributes:
        sizes: pairs of each source that have text on both sides.
        weights: how often each of its pairs is drawn in an epoch.
        tags: id of the token before each of its sources; None: no such token.
    """

    sizes: tuple[int, ...]
    weights: tuple[float, ...]
    tags: tuple[int | None, ...]

    @property
    def fingerprint(self) -> str:
        """Return a short text that differs where weights, tags or sizes do."""
        return hashlib.sha256(repr((self.sizes, self.weights, self.tags)).encode()).hexdigest()

    def scale_last(self, count: int, factor: float) -> "TrainingMix":
        """Return the mix with the weights of the last ``count`` sources times ``factor``."""
        scaled = (weight * factor for weight in self.weights[-count:])
        return replace(self, weights=(*self.weights[:-count], *scaled))

    def sources_of(self, pairs: np.ndarray) -> np.ndarray:
        """Return the number of each pair's source, given the pairs' places in the whole text."""
        ends = np.cumsum(self.sizes, dtype=np.int64)
        sources: np.ndarray = np.searchsorted(ends, pairs, side="right")
        return sources

    def count_tags(self, pairs: np.ndarray) -> np.ndarray:
        """Return the number of tags before each pair's source, 0 or 1."""
        has_tag: np.ndarray = np.array([tag is not None for tag in self.tags], np.int64)
        return has_tag.take(self.sources_of(pairs))

    def add_tags(self, text: EncodedText, pairs: np.ndarray) -> EncodedText:
        """Return ``text``, which are the pairs at these places, with tags before the sources."""
        counts = self.count_tags(pairs)
        if not counts.any():
            return text
        ids = np.array([tag or 0 for tag in self.tags], np.int32)[self.sources_of(pairs)]
        lengths = text.src.lengths + counts
        starts = np.cumsum(lengths) - lengths
        flat = np.empty(int(lengths.sum()), np.int32)
        is_tag = np.zeros(len(flat), bool)
        is_tag[starts[counts == 1]] = True
        flat[is_tag] = ids[counts == 1]
        flat[~is_tag] = text.src.ids
        return EncodedText(TokenArray.from_lengths(flat, lengths), text.tgt)

    def build_draws(self, lengths: Lengths, pairs: np.ndarray) -> "EpochSampler | None":
        """Return the draws of pairs at these places in the text; None: each is drawn just once."""
        if all(weight == 1.0 for weight in self.weights):
            return None
        sources = self.sources_of(pairs)
        every, shares = [np.zeros(0, np.int64)], []
        for number, weight in enumerate(self.weights):
            own = np.flatnonzero(sources == number)
            own = own[np.lexsort((lengths.src[own], lengths.tgt[own]))]
            whole = int(weight)
            every += [own] * whole
            # At least one, so that a small weight leaves no source out of a shard.
            share = max(round((weight - whole) * len(own)), 1 if weight < 1 and len(own) else 0)
            if share:
                shares.append(_Share(own, share))
        return EpochSampler(np.concatenate(every), shares, lengths)


_STEPS = 1 << 20
_STRIDE = 648_055
"""The golden ratio of ``_STEPS``, odd: multiples of it are spread evenly, and all numbers occur."""


@dataclass(frozen=True)
class _Share:
    """Some of a source's pairs each epoch, evenly spaced in the order of their lengths."""

    pairs: np.ndarray
    """All of the source, by length."""
    count: int
    """How many are drawn."""

    def pick(self, shift: int) -> np.ndarray:
        """Return the pairs of an epoch; over all shifts, from 0 to 2^20, each is as frequent."""
        steps = np.arange(self.count, dtype=np.int64) * _STEPS + shift
        picked: np.ndarray = self.pairs[steps * len(self.pairs) // (self.count * _STEPS)]
        return picked

    def max_lengths(self, side: np.ndarray) -> np.ndarray:
        """Return for each draw the most tokens of a pair that it may pick."""
        draws = np.arange(self.count + 1, dtype=np.int64) * len(self.pairs)
        first, last = draws[:-1] // self.count, -(-draws[1:] // self.count)
        # One more, as reduceat takes no end beyond the array.
        ordered = np.append(side[self.pairs], 0)
        ends: np.ndarray = np.maximum.reduceat(ordered, np.stack((first, last), 1).ravel())
        return ends[::2]


class EpochSampler:
    """The pairs of an epoch, of which some are drawn from several of similar length.

    ``every`` are in each epoch, once for each time. Batches are planned by the longest pair that a
    draw may pick, so all epochs have the same number of batches whichever is picked.
    """

    def __init__(self, every: np.ndarray, shares: Sequence[_Share], lengths: Lengths) -> None:
        self._every = every
        self._shares = shares
        self.lengths = Lengths(
            *(
                np.concatenate([side[every], *(share.max_lengths(side) for share in shares)])
                for side in lengths
            )
        )
        """Most tokens of a pair that each draw may pick."""

    def pick(self, seed: int, epoch: int, shard: int) -> np.ndarray:
        """Return the pair of each draw, a pure function of the arguments."""
        random = np.random.Generator(np.random.PCG64([seed, shard]))
        shifts = (random.integers(0, _STEPS, len(self._shares)) + epoch * _STRIDE) % _STEPS
        picked = (share.pick(int(shift)) for share, shift in zip(self._shares, shifts, strict=True))
        return np.concatenate([self._every, *picked])


# --- shards --------------------------------------------------------------------------------------


class ShardedText(Protocol):
    """Text to train on, in shards whose pairs never change."""

    @property
    def num_shards(self) -> int:
        """Number of shards."""

    def shard(self, number: int) -> EncodedText:
        """Return the pairs of a shard, counted from 0."""

    def shard_lengths(self, number: int) -> Lengths:
        """Return tokens of each pair's source and target, in the order of ``shard(number)``."""

    def draws(self, number: int) -> EpochSampler | None:
        """Return the draws of a shard; None: each pair is trained on once an epoch."""


class _BatchCounts(Record):
    """Content of batches.json."""

    pairs: int
    """Of all shards."""
    batches: list[int]
    """Of each shard."""


class ShardedStore:
    """The pairs of a store that are short enough to train on, in shards; none is kept in memory.

    Shard k of K has the pages k, k + K, k + 2K, …, so each is an even sample of the corpus,
    whatever its order. A corpus that fits into one shard keeps its order. ``shard_pairs`` is a
    multiple of the pairs of a page; without ``mix``, sources are all alike and have no tags.
    """

    def __init__(
        self,
        store: EncodedStore,
        max_length: int,
        batch_tokens: int,
        shard_pairs: int = SHARD_PAIRS,
        mix: TrainingMix | None = None,
    ) -> None:
        self._store = store
        self._page_pairs = store.record.page_pairs
        self._mix = mix
        self._max_length = max_length
        self._counts_path = store.directory / _COUNTS
        self.batch_tokens = batch_tokens
        self.num_shards = -(-store.num_pages // (shard_pairs // self._page_pairs))
        made_of = {
            **store.record.made_of,
            "page_pairs": str(self._page_pairs),
            "shard_pairs": str(shard_pairs),
            "max_length": str(max_length),
            "batch_tokens": str(batch_tokens),
            "mix": "" if mix is None else mix.fingerprint,
        }
        saved = read_record(self._counts_path, _BatchCounts)
        self._are_saved = saved is not None and saved.made_of == made_of
        self._counts = saved if saved is not None and self._are_saved else self._count(made_of)

    def __len__(self) -> int:
        return self._counts.pairs

    @property
    def batches(self) -> list[int]:
        """Number of batches of each shard, the same in every epoch, by ``batch_tokens``."""
        return self._counts.batches

    def save_counts(self) -> None:
        """Write the numbers of pairs and batches into the store, so that later sessions read them.

        Call it only where no other process writes to the store; OSError if they cannot be written.
        """
        if not self._are_saved:
            write_record(self._counts_path, self._counts)
            self._are_saved = True

    def shard(self, number: int) -> EncodedText:
        """Return the pairs of a shard; see ``ShardedText``."""
        src, tgt = [], []
        numbers = self._pages(number)
        for place, page in zip(numbers, self._store.read_pages(numbers), strict=True):
            if self._mix is not None:
                first = place * self._page_pairs
                page = self._mix.add_tags(page, np.arange(first, first + len(page)))
            mask = self._are_short(page.lengths)
            src.append(page.src.filter(mask))
            tgt.append(page.tgt.filter(mask))
        return EncodedText(TokenArray.concatenate(src), TokenArray.concatenate(tgt))

    def shard_lengths(self, number: int) -> Lengths:
        """Return the lengths of the pairs of ``shard(number)``."""
        return self._short_pairs(number)[0]

    def draws(self, number: int) -> EpochSampler | None:
        """Return the draws of a shard; None: each pair is trained on once an epoch."""
        return None if self._mix is None else self._mix.build_draws(*self._short_pairs(number))

    def _short_pairs(self, number: int) -> tuple[Lengths, np.ndarray]:
        """Return the lengths of the pairs of a shard, and their places in the whole text."""
        pages = self._pages(number)
        none = np.zeros(0, np.int64)
        sides = zip((none, none), *self._store.read_lengths(pages), strict=True)
        lengths = Lengths(*map(np.concatenate, sides))
        starts = np.array(pages, np.int64) * self._page_pairs
        places = (starts[:, None] + np.arange(self._page_pairs)).ravel()
        places = places[places < len(self._store)]
        if self._mix is not None:
            lengths = Lengths(lengths.src + self._mix.count_tags(places), lengths.tgt)
        mask = self._are_short(lengths)
        return Lengths(lengths.src[mask], lengths.tgt[mask]), places[mask]

    def _are_short(self, lengths: Lengths) -> np.ndarray:
        mask: np.ndarray = np.maximum(lengths.src, lengths.tgt) <= self._max_length
        return mask

    def _pages(self, number: int) -> range:
        return range(number, self._store.num_pages, self.num_shards)

    def _count(self, made_of: dict[str, str]) -> _BatchCounts:
        counts = _BatchCounts(made_of=made_of, pairs=0, batches=[])
        for number in range(self.num_shards):
            lengths, places = self._short_pairs(number)
            counts.pairs += len(lengths.src)
            draws = None if self._mix is None else self._mix.build_draws(lengths, places)
            planned = lengths if draws is None else draws.lengths
            counts.batches.append(count_batches(planned, self.batch_tokens))
        return counts


def count_short_pairs(store: EncodedStore, max_length: int, mix: TrainingMix) -> np.ndarray:
    """Return how many pairs of each source are at most ``max_length`` long, tags included."""
    counts = np.zeros(len(mix.sizes), np.int64)
    first = 0
    for lengths in store.read_lengths(range(store.num_pages)):
        pairs = np.arange(first, first + len(lengths.src))
        first += len(pairs)
        longest = np.maximum(lengths.src + mix.count_tags(pairs), lengths.tgt)
        counts += np.bincount(mix.sources_of(pairs[longest <= max_length]), minlength=len(counts))
    return counts
