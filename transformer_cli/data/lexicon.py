"""Which token translates which, by IBM model 1 (Brown et al. 1993) in both directions.

Deterministic: sums are taken in one order, by one thread.
"""

from dataclasses import dataclass

import numpy as np

from transformer_cli.data.store import EncodedStore
from transformer_cli.data.token_arrays import EncodedText, TokenArray

_ITERATIONS = 5
_MOST_PLACES = 8_000_000
"""Pairs of a source and a target token of one sentence that are learned from: 0.5 GB meanwhile."""
_LONGEST = 60
_LEAST = 1e-3  # smaller probabilities are left out


@dataclass(frozen=True)
class TranslationTable:
    """The probability of a token, given one of the other side; sparse, by sorted keys."""

    keys: np.ndarray
    probabilities: np.ndarray
    size: int
    """Of both vocabularies; as the id of a given token, it stands for none at all."""

    @classmethod
    def learn(cls, text: EncodedText, size: int) -> "TranslationTable":
        """Learn the probabilities of target tokens, given source tokens."""
        given, rows, counts = _cross(text, size)
        keys, places = np.unique(given * size + rows, return_inverse=True)
        starts = np.cumsum(counts) - counts
        of_given = keys // size
        probabilities: np.ndarray = np.ones(len(keys))
        for _ in range(_ITERATIONS):
            weights = probabilities[places]
            weights /= np.repeat(np.add.reduceat(weights, starts), counts)
            counted = np.bincount(places, weights, minlength=len(keys))
            probabilities = counted / np.bincount(of_given, counted)[of_given]
        is_kept = probabilities >= _LEAST
        return cls(keys[is_kept], probabilities[is_kept], size)

    def align(self, given: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return for each token of ``rows`` the place of the likeliest of ``given``; -1: none."""
        if not len(self.keys):  # all pairs were too long to learn from
            return np.full(len(rows), -1)
        wanted = np.append(given, self.size)[:, None] * self.size + rows
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        found = np.where(self.keys[places] == wanted, self.probabilities[places], 0.0)
        best = found.argmax(axis=0)
        is_none = (best == len(given)) | (found.max(axis=0, initial=0.0) == 0)
        return np.where(is_none, -1, best)


@dataclass(frozen=True)
class Lexicon:
    """What aligns the tokens of a pair, and how frequent tokens are."""

    forward: TranslationTable
    backward: TranslationTable
    frequency: np.ndarray
    """Share of the source's tokens that each id has."""

    @classmethod
    def learn(cls, text: EncodedText, size: int) -> "Lexicon":
        """Learn from pairs with tokens on both sides; ``size`` is that of both vocabularies."""
        swapped = EncodedText(text.tgt, text.src)
        counts = np.bincount(text.src.ids, minlength=size)
        frequency = counts / max(1, counts.sum())
        return cls(
            TranslationTable.learn(text, size), TranslationTable.learn(swapped, size), frequency
        )

    def align(self, src: np.ndarray, tgt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the source token of each target token, and the target token of each source token.

        They are places, or -1 for none.
        """
        return self.forward.align(src, tgt), self.backward.align(tgt, src)


def sample_pairs(store: EncodedStore) -> EncodedText:
    """Return the short pairs of as many pages, evenly spread, as a lexicon has room for."""
    places = 0.0
    for lengths in store.read_lengths():
        src, tgt = (np.minimum(side, _LONGEST).astype(float) for side in lengths)
        places += (src * tgt).sum()
    step = int(np.ceil(places / _MOST_PLACES)) or 1
    pages = list(store.read_pages(range(0, store.num_pages, step)))
    text = EncodedText(
        TokenArray.concatenate([page.src for page in pages]),
        TokenArray.concatenate([page.tgt for page in pages]),
    )
    is_short = np.maximum(*text.lengths) <= _LONGEST
    return text.take(np.flatnonzero(is_short & (np.minimum(*text.lengths) > 0)))


def _cross(text: EncodedText, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each target token with each source token of its pair, and with none.

    Source tokens, target tokens, and how many of them there are for each place in the target.
    """
    src_lengths, tgt_lengths = text.lengths
    ends = np.cumsum(src_lengths)
    ids = np.insert(text.src.ids.astype(np.int64), ends, size)  # none, behind each source
    starts = ends - src_lengths + np.arange(len(ends))
    counts = np.repeat(src_lengths + 1, tgt_lengths)
    first = np.repeat(starts, tgt_lengths)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return ids[np.repeat(first, counts) + within], np.repeat(text.tgt.ids, counts), counts
