"""Digests of the lines of a corpus, by which equal ones are found."""

from collections.abc import Iterable

import numpy as np

from transformer_cli.data.corpus import digest_line

NO_DIGEST = 0
_DIGESTS_AT_ONCE = 1 << 16


def digest(lines: Iterable[str | None]) -> np.ndarray:
    """Return a number for each line, as ``digest_lines``; ``NO_DIGEST`` for None."""
    nothing = NO_DIGEST.to_bytes(8)
    digests = [nothing if line is None else digest_line(line) for line in lines]
    return np.frombuffer(b"".join(digests), np.uint64)


def find_repeated(digests: np.ndarray) -> np.ndarray:
    """Return the digests but ``NO_DIGEST`` that occur more than once, sorted."""
    ordered = np.sort(digests)
    repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    return repeated[repeated != NO_DIGEST]


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
