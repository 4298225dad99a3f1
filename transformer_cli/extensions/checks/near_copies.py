"""Near-copies: how near held-out pairs are to the pairs of a text of any size.

The similarity of two pairs is Dice's coefficient of their words, of source and target together: the
share of its words that a pair has in common with the other. It is counted exactly, of all against
all. A table has a row of flags for each word that is held out, one for each pair that has it; the
sum of the rows of a pair's words is how many it has in common with each held-out pair.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, pairwise, zip_longest

import numpy as np

from transformer_cli.config.languages import has_spaces
from transformer_cli.data.corpus import in_batches
from transformer_cli.text.lines import MARKS

Pairs = Sequence[tuple[str, str]]

NEAR = 0.7
"""Similarity from which on a pair is a near-copy."""
BANDS = (0.5, 0.6, NEAR, 0.8)
"""Similarities between which pairs are counted and scored together."""
MAX_HELD_OUT = 1 << 12
"""Pairs that are compared at a time."""
# The table has a byte for each of them and each of their words: 40 MB for everyday sentences.
_TABLE_BYTES = 48 << 20
# Pairs whose sums a core's cache has room for.
_AT_ONCE = 64
_WORD = re.compile(rf"[\w{MARKS}]+")
_TWO_LETTERS = re.compile(rf"(?=([\w{MARKS}][\w{MARKS}]))")
_LARGE_SHARE = 0.2  # of near-copies
_COMPARED = 1000  # pairs of a split, which tell a share to 3 %
_SHOWN = 3


def find_bands(similarities: np.ndarray) -> np.ndarray:
    """Return the number of the band that each similarity is in, 0 for less than any of BANDS."""
    return np.asarray(np.digitize(similarities, np.array(BANDS, np.float32)))


_Patterns = Sequence[re.Pattern[str]]


def _find_patterns(languages: tuple[str, str]) -> _Patterns:
    """Return what finds the words of each side."""
    return [_WORD if has_spaces(each) else _TWO_LETTERS for each in languages]


def _cut_words(pair: tuple[str, str], words: _Patterns) -> list[set[str]]:
    """Return the different words of each side, without case and punctuation."""
    return [set(each.findall(side.lower())) for each, side in zip(words, pair, strict=True)]


def cut_held_out(pairs: Pairs, languages: tuple[str, str]) -> list[slice]:
    """Cut pairs into runs of at most ``MAX_HELD_OUT`` whose table does not take too much memory."""
    patterns = _find_patterns(languages)
    cuts, words, most = [0], set[tuple[int, str]](), 0
    for place, pair in enumerate(pairs):
        sides = enumerate(_cut_words(pair, patterns))
        own = {(side, word) for side, found in sides for word in found}
        words |= own
        most, count = max(most, len(own)), place - cuts[-1]
        table_bytes = (len(words) + 1) * (count + 1) * np.min_scalar_type(most).itemsize
        if count and (count == MAX_HELD_OUT or table_bytes > _TABLE_BYTES):
            cuts.append(place)
            words, most = own, len(own)
    return [slice(first, end) for first, end in pairwise([*cuts, len(pairs)]) if first < end]


class HeldOutPairs:
    """Pairs, of one of the runs that ``cut_held_out`` makes, which others are compared with."""

    def __init__(self, pairs: Pairs, languages: tuple[str, str]) -> None:
        self._words = _find_patterns(languages)
        numbers = count(1)  # row 0 is of words that no pair has
        self._rows = tuple(defaultdict[str, int](numbers.__next__) for _ in languages)
        of_pairs = [
            [
                rows[word]
                for rows, words in zip(self._rows, _cut_words(pair, self._words), strict=True)
                for word in words
            ]
            for pair in pairs
        ]
        self._sizes = np.array([len(rows) for rows in of_pairs], np.float32)
        kind = np.min_scalar_type(int(self._sizes.max(initial=0)))  # for what they may share
        self._has = np.zeros((next(numbers), len(of_pairs)), kind)
        for place, rows in enumerate(of_pairs):
            self._has[rows, place] = 1

    def find_nearest(self, pairs: Iterable[tuple[str, str]]) -> np.ndarray:
        """Return for each held-out pair its similarity to the nearest of these."""
        nearest = np.zeros(len(self._sizes), np.float32)
        for batch in in_batches(pairs):
            for _, shared, mean_sizes in self._compare(batch):
                np.maximum(nearest, shared.max(0) / mean_sizes, out=nearest)
        return nearest

    def find_near(self, pairs: Iterable[tuple[str, str]]) -> np.ndarray:
        """Return a mask of the pairs that are near-copies of held-out ones."""
        masks = [np.zeros(0, bool)]
        for batch in in_batches(pairs):
            masks.append(np.zeros(len(batch), bool))
            for places, shared, mean_sizes in self._compare(batch):
                masks[-1][places] = (shared / mean_sizes >= NEAR).any(1)
        return np.concatenate(masks)

    def _compare(self, batch: Pairs) -> Iterator[tuple[list[int], np.ndarray, np.ndarray]]:
        """Yield places of pairs of one size, and what they share with each that is held out.

        That is the number of words, and then what their similarity is divided by.
        """
        by_size = defaultdict[int, list[tuple[int, list[int]]]](list)
        for place, pair in enumerate(batch):
            sides = _cut_words(pair, self._words)
            both = zip(self._rows, sides, strict=True)
            known = [rows[word] for rows, words in both for word in words if word in rows]
            by_size[sum(map(len, sides))].append((place, known))
        for size, group in by_size.items():
            mean_sizes = np.maximum(size + self._sizes, 1) / 2
            for first in range(0, len(group), _AT_ONCE):
                some = group[first : first + _AT_ONCE]
                shared = np.zeros((len(some), len(self._sizes)), self._has.dtype)
                for rows in zip_longest(*(known for _, known in some), fillvalue=0):
                    shared += self._has[list(rows)]
                yield [place for place, _ in some], shared, mean_sizes


# --- the splits that are scored, by a sample of each ----------------------------------------------


@dataclass(frozen=True)
class Nearness:
    """How near a split is to the training text."""

    name: str
    compared: int  # pairs
    shares: list[float]  # of these, by band of the similarity to the nearest
    near: int  # near-copies among them
    examples: list[str]  # a few of those

    @property
    def is_large(self) -> bool:
        """Whether near-copies are so many that scores flatter."""
        return self.near > 0 and self.near >= _LARGE_SHARE * self.compared

    def describe(self) -> str:
        bands = ("less", *map(str, BANDS[:-1]), f"{BANDS[-1]} or more")
        shares = [f"{band} {share:.0%}" for band, share in zip(bands, self.shares, strict=True)]
        return f"similarity to the nearest training pair: {', '.join(reversed(shares))}"


def _draw(splits: Mapping[str, Pairs], size: int) -> dict[str, Pairs]:
    return {
        name: [pairs[n * len(pairs) // size] for n in range(size)] if size < len(pairs) else pairs
        for name, pairs in splits.items()
    }


def _join(splits: Mapping[str, Pairs]) -> Pairs:
    return [*chain.from_iterable(splits.values())]


class Samples:
    """Some pairs of each split, to be compared with the training text."""

    def __init__(self, splits: Mapping[str, Pairs], languages: tuple[str, str]) -> None:
        size = min(_COMPARED, MAX_HELD_OUT // max(len(splits), 1))
        self._pairs = _draw(splits, size)
        while size > 1 and len(cut_held_out(_join(self._pairs), languages)) > 1:  # of long texts
            size //= 2
            self._pairs = _draw(splits, size)
        self.held_out = HeldOutPairs(_join(self._pairs), languages)

        self._nearest = np.zeros(1, np.float32)

    def compare(self, pairs: Pairs) -> None:
        """Compare the samples with pairs of the training text."""
        self._nearest = np.maximum(self._nearest, self.held_out.find_nearest(pairs))

    def conclude(self) -> list[Nearness]:
        """Return how near each split is, by the greatest similarities to the training text."""
        found, nearest = [], self._nearest
        for name, pairs in self._pairs.items():
            own, nearest = np.split(nearest, [len(pairs)])
            shares = np.bincount(find_bands(own), minlength=len(BANDS) + 1) / max(len(pairs), 1)
            near = np.flatnonzero(own >= NEAR).tolist()
            examples = [f"{pairs[place][0]} ({own[place]:.2f})" for place in near[:_SHOWN]]
            found.append(Nearness(name, len(pairs), shares.tolist(), len(near), examples))
        return found
