"""Digests (64-bit hashes) of a corpus's lines, to find equal lines."""

import hashlib
from collections.abc import Iterable

import numpy as np

NO_DIGEST = 0
_DIGESTS_AT_ONCE = 1 << 16


def digest(lines: Iterable[str | None]) -> np.ndarray:
    """Return a 64-bit number for each line, equal for equal lines; ``NO_DIGEST`` for None.

    In a corpus of 100 million different lines, the probability that any two lines get the same
    digest is 1 in 3,700.
    """
    nothing = NO_DIGEST.to_bytes(8)
    digests = [nothing if line is None else _digest_line(line) for line in lines]
    return np.frombuffer(b"".join(digests), "<u8")


def _digest_line(line: str) -> bytes:
    return hashlib.blake2b(line.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def find_repeated(digests: np.ndarray) -> np.ndarray:
    """Return the digests, except ``NO_DIGEST``, that occur more than once, in sorted order."""
    ordered = np.sort(digests)
    repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    return np.asarray(repeated[repeated != NO_DIGEST])


def is_among(digests: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return a mask of the digests that occur in ``values``, which are sorted and unique."""
    mask = np.zeros(len(digests), bool)
    if not len(values):
        return mask
    for first in range(0, len(digests), _DIGESTS_AT_ONCE):  # np.isin would sort a copy of both
        part = digests[first : first + _DIGESTS_AT_ONCE]
        places = np.minimum(np.searchsorted(values, part), len(values) - 1)
        mask[first : first + _DIGESTS_AT_ONCE] = values[places] == part
    return mask
