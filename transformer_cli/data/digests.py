"""A digest of eight bytes a line, by which equal lines are found."""

from array import array
from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

_BYTES = 8
NO_DIGEST = 0
_CHUNK = 1 << 16


def digest_lines(lines: Iterable[str]) -> np.ndarray:
    """Return the numbers that ``Digests`` has of these lines, as little-endian uint64."""
    digests = (blake2b(line.encode("utf-8", "surrogatepass"), digest_size=_BYTES) for line in lines)
    return np.frombuffer(b"".join(each.digest() for each in digests), dtype="<u8")


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
        self._numbers.append(NO_DIGEST)

    @property
    def numbers(self) -> np.ndarray:
        """Digests of all lines, uint64; 0 for those that were skipped."""
        return np.frombuffer(self._numbers, dtype=np.uint64)


def find_repeated(digests: np.ndarray) -> np.ndarray:
    """Return the digests that occur more than once, sorted; memory is that of a copy."""
    ordered = np.sort(digests)
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


def is_among(digests: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return a mask of the digests that are among ``values``, which are sorted and unique."""
    mask = np.zeros(len(digests), bool)
    if not len(values):
        return mask
    for first in range(0, len(digests), _CHUNK):  # np.isin sorts a copy of both together
        chunk = digests[first : first + _CHUNK]
        places = np.minimum(np.searchsorted(values, chunk), len(values) - 1)
        mask[first : first + _CHUNK] = values[places] == chunk
    return mask
