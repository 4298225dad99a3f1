"""Weights and tags of the sources of a training text."""

import hashlib
from dataclasses import dataclass

import numpy as np

from transformer_cli.data.token_arrays import EncodedText, Lengths, TokenArray


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
        src = text.src
        lengths = src.lengths + counts
        starts = np.cumsum(lengths) - lengths
        flat = np.empty(int(lengths.sum()), np.int32)
        is_tag = np.zeros(len(flat), bool)
        is_tag[starts[counts == 1]] = True
        flat[is_tag] = ids[counts == 1]
        flat[~is_tag] = src.ids
        return EncodedText(TokenArray.from_lengths(flat, lengths), text.tgt)

    def build_slots(self, lengths: Lengths, pairs: np.ndarray) -> "Slots | None":
        """Return the slots of an epoch; None if every pair has just one.

        Args:
            lengths: tokens of each pair.
            pairs: the pairs' places in the whole text.
        """
        if all(weight == 1.0 for weight in self.weights):
            return None
        sources = self.sources_of(pairs)
        members, sizes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for number, weight in enumerate(self.weights):
            own = np.flatnonzero(sources == number)
            own = own[np.lexsort((lengths.src[own], lengths.tgt[own]))]
            whole = int(weight)
            members += [own] * whole
            sizes += [np.ones(len(own), np.int64)] * whole
            # At least one, so that a small weight leaves no source out of a shard.
            part = max(round((weight - whole) * len(own)), 1 if weight < 1 and len(own) else 0)
            if part:
                ends = np.arange(part + 1) * len(own) // part
                members.append(own)
                sizes.append(np.diff(ends))
        return Slots(np.concatenate(members), np.concatenate(sizes), lengths)


class Slots:
    """Places in an epoch, each taken by one of several pairs of similar length.

    Batches are planned by the longest pair of a slot, so all epochs have the same number of batches
    whichever pair is drawn. A slot's pairs take turns, so each is trained on equally often.

    Args:
        members: pairs of all slots, slot after slot.
        sizes: number of pairs of each slot.
        lengths: tokens of all pairs.
    """

    def __init__(self, members: np.ndarray, sizes: np.ndarray, lengths: Lengths) -> None:
        self._members = members
        self._sizes = sizes
        self._starts = np.cumsum(sizes) - sizes
        self.lengths = Lengths(
            *(np.maximum.reduceat(side[members], self._starts) for side in lengths)
            if len(members)
            else lengths
        )
        """Most tokens of each slot's pairs."""

    def __len__(self) -> int:
        return len(self._sizes)

    def draw(self, seed: int, epoch: int, shard: int) -> np.ndarray:
        """Return the pair in each slot, a pure function of the arguments."""
        random = np.random.Generator(np.random.PCG64([seed, shard]))
        first = random.integers(0, self._sizes)
        drawn: np.ndarray = self._members[self._starts + (first + epoch) % self._sizes]
        return drawn
