"""Near-copies: how near held-out pairs are to the pairs of a text of any size.

The similarity of two pairs is Dice's coefficient of their words, of source and target together: the
share of its words that a pair has in common with the other. It is counted exactly, of all against
all. A table has a row of flags for each word that is held out, one for each pair that has it; the
sum of the rows of a pair's words is how many it has in common with each held-out pair.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count, islice, zip_longest

import numpy as np

from transformer_cli.data.corpus import in_batches
from transformer_cli.text.protocol import draw_places
from transformer_cli.text.scripts import has_spaces

NEAR, FAR = 0.7, 0.5
"""Similarities from which on a pair is a near-copy, and below which it is like no other.

Of 1,000 everyday sentences, a model's BLEU is 62 where the nearest training pair is near, and 20
where it is far.
"""
BATCH_PAIRS = 1 << 12
"""Pairs that are best looked at together: those of one size are, up to ``_ROWS``."""
_SAMPLED = 20_000  # pairs of a text that a sample is drawn from
_ROWS = 64
"""Rows of sums that a core's cache has room for."""
_WORD, _TWO_LETTERS = re.compile(r"\w+"), re.compile(r"(?=(\w\w))")

Pairs = Sequence[tuple[str, str]]


def is_near_copy(similarities: np.ndarray) -> np.ndarray:
    """Return a mask of those of near-copies; the same words are no copy, but the same sentence."""
    return np.asarray((similarities >= NEAR) & (similarities < 1))


def sample_pairs(pairs: Iterable[tuple[str, str]], size: int) -> list[tuple[str, str]]:
    """Return so many of the first pairs, the same ones every time."""
    first = list(islice(pairs, _SAMPLED))
    return [first[place] for place in draw_places(len(first), size)]


class HeldOutPairs:
    """The pairs of some held-out texts, which others are read past.

    In memory is a byte for each pair and different word: 30 MB for 3,000 pairs of 10,000 words.
    """

    def __init__(self, texts: Sequence[Pairs], languages: tuple[str, str]) -> None:
        self._ends = np.cumsum([len(pairs) for pairs in texts])[:-1]
        self._words = tuple(_WORD if has_spaces(each) else _TWO_LETTERS for each in languages)
        numbers = count(1)  # row 0 is of words that no pair has
        self._rows = tuple(defaultdict[str, int](numbers.__next__) for _ in languages)
        of_pairs = [
            [
                rows[word]
                for rows, words in zip(self._rows, self._cut(pair), strict=True)
                for word in words
            ]
            for pair in chain.from_iterable(texts)
        ]
        self._sizes = np.array([len(rows) for rows in of_pairs], np.int64)
        is_short = self._sizes.max(initial=0) < np.iinfo(np.uint8).max
        kind = np.uint8 if is_short else np.uint32
        self._has = np.zeros((next(numbers), len(of_pairs)), kind)
        for place, rows in enumerate(of_pairs):
            self._has[rows, place] = 1

    def _cut(self, pair: tuple[str, str]) -> list[set[str]]:
        """Return the different words of each side, without case and punctuation."""
        sides = zip(self._words, pair, strict=True)
        return [set(words.findall(side.lower())) for words, side in sides]

    def split(self, nearest: np.ndarray) -> list[np.ndarray]:
        """Return the similarities of the pairs of each text."""
        return np.split(nearest, self._ends)

    def find_nearest(self, pairs: Pairs) -> np.ndarray:
        """Return for each held-out pair its similarity to the nearest of these."""
        nearest = self.new_nearest()
        for _, size, shared in self._count_shared(pairs):
            mean_sizes = np.maximum(size + self._sizes, 1) / 2
            np.maximum(nearest, shared.max(0) / mean_sizes, out=nearest)
        return nearest

    def new_nearest(self) -> np.ndarray:
        """Return similarities of all pairs to none."""
        return np.zeros(len(self._sizes), np.float32)

    def watch(
        self, pairs: Iterable[tuple[str, str]], nearest: np.ndarray
    ) -> Iterator[tuple[str, str]]:
        """Yield pairs as they are, and raise in ``nearest`` what is less than their similarity."""
        if not len(nearest):
            yield from pairs
            return
        for batch in in_batches(pairs, BATCH_PAIRS):
            np.maximum(nearest, self.find_nearest(batch), out=nearest)
            yield from batch

    def find_near(self, pairs: Pairs) -> np.ndarray:
        """Return a mask of the pairs that are near-copies of held-out ones."""
        is_near = np.zeros(len(pairs), bool)
        for places, size, shared in self._count_shared(pairs):
            needed = np.ceil(NEAR / 2 * np.maximum(size + self._sizes, 1) - 1e-9)
            needed = np.minimum(needed, np.iinfo(shared.dtype).max).astype(shared.dtype)
            is_near[places] = (shared >= needed).any(1)
        return is_near

    def _count_shared(self, pairs: Pairs) -> Iterator[tuple[list[int], int, np.ndarray]]:
        """Yield places of pairs, their size, and how many words each shares with each held out."""
        by_size = defaultdict[int, list[tuple[int, list[int]]]](list)
        for place, pair in enumerate(pairs):
            src, tgt = self._cut(pair)
            of_src, of_tgt = self._rows
            known = [of_src[word] for word in src if word in of_src]
            known += [of_tgt[word] for word in tgt if word in of_tgt]
            by_size[len(src) + len(tgt)].append((place, known))
        for size, group in by_size.items():
            for first in range(0, len(group), _ROWS):
                some = group[first : first + _ROWS]
                places = [place for place, _ in some]
                shared = np.zeros((len(places), len(self._sizes)), self._has.dtype)
                for rows in zip_longest(*(known for _, known in some), fillvalue=0):
                    shared += self._has[list(rows)]
                yield places, size, shared
