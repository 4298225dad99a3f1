"""Digests of the lines of a corpus, by which equal ones are found."""

from array import array
from collections.abc import Iterable

import numpy as np

from transformer_cli.data.corpus import digest_line

NO_DIGEST = 0
_DIGESTS_AT_ONCE = 1 << 16


class Digests:
    """A number for each line in turn, the same for equal lines; see ``digest_lines``."""

    def __init__(self) -> None:
        self._numbers = array("Q")

    def extend(self, lines: Iterable[str | None]) -> None:
        """Append the next lines; None is one that is like no other."""
        nothing = NO_DIGEST.to_bytes(8)
        digests = [nothing if line is None else digest_line(line) for line in lines]
        self._numbers.frombytes(b"".join(digests))

    @property
    def numbers(self) -> np.ndarray:
        """Digests of all lines, uint64; ``NO_DIGEST`` for those that are like no other."""
        return np.frombuffer(self._numbers, dtype=np.uint64)


def find_repeated(digests: np.ndarray) -> np.ndarray:
    """Return the digests that occur more than once, sorted."""
    ordered = np.sort(digests)
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


def is_among(digests: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return a mask of the digests that are among ``values``, which are sorted and unique."""
    mask = np.zeros(len(digests), bool)
    if not len(values):
        return mask
    for first in range(0, len(digests), _DIGESTS_AT_ONCE):  # np.isin sorts a copy of both together
        part = digests[first : first + _DIGESTS_AT_ONCE]
        places = np.minimum(np.searchsorted(values, part), len(values) - 1)
        mask[first : first + _DIGESTS_AT_ONCE] = values[places] == part
    return mask
