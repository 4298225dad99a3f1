"""Duplicate lines, found by a digest of eight bytes a line."""

from array import array
from hashlib import blake2b

import numpy as np

_BYTES = 8
_NONE = 0


class Digests:
    """A number for each line in turn, the same for equal lines.

    Of a hundred million different lines, two have the same one by chance in one of 3,700 corpora.
    """

    def __init__(self) -> None:
        self._numbers = array("Q")

    def add(self, line: str) -> None:
        """Append the next line."""
        digest = blake2b(line.encode("utf-8", "surrogatepass"), digest_size=_BYTES).digest()
        self._numbers.append(int.from_bytes(digest, "little"))

    def skip(self) -> None:
        """Append a line that is like no other."""
        self._numbers.append(_NONE)

    @property
    def numbers(self) -> np.ndarray:
        """Digests of all lines, uint64; 0 for those that were skipped."""
        return np.frombuffer(self._numbers, dtype=np.uint64)


def find_repeated(digests: Digests) -> list[tuple[int, int]]:
    """Return the lines that occur earlier.

    Returns:
        The index of each, rising, and that of the first line like it.
    """
    numbers = digests.numbers
    order = np.argsort(numbers, kind="stable")
    ranked = numbers[order]
    again = np.flatnonzero((ranked[1:] == ranked[:-1]) & (ranked[1:] != _NONE)) + 1
    firsts = order[np.searchsorted(ranked, ranked[again])]
    return sorted(zip(order[again].tolist(), firsts.tolist(), strict=True))


def find_in(few: Digests, many: Digests) -> list[tuple[int, int]]:
    """Return the lines of one text that are in another one.

    Returns:
        The index of each in the one text, rising, and that of the first like it in the other.
    """
    wanted, numbers = few.numbers, many.numbers
    if not len(wanted):
        return []
    known = np.unique(wanted[wanted != _NONE])
    if not len(known):
        return []
    # The other way round, the big text would have to be sorted.
    places = np.searchsorted(known, numbers).clip(max=len(known) - 1)
    hits = np.flatnonzero(known[places] == numbers)
    first: dict[int, int] = {}
    for index, number in zip(hits.tolist(), numbers[hits].tolist(), strict=True):
        first.setdefault(number, index)
    return [
        (index, first[number]) for index, number in enumerate(wanted.tolist()) if number in first
    ]
