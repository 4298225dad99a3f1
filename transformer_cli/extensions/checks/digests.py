"""Find equal lines: normalize them, so that invisible differences do not count, and hash them."""

import hashlib
import unicodedata
from collections.abc import Iterable

import numpy as np

NO_DIGEST = 0
_DIGESTS_AT_ONCE = 1 << 16


def fold_side(side: str) -> str:
    """Return a line without format characters and repeated spaces, for comparison."""
    if side.isprintable():  # then it has no format characters, and no white space but spaces
        return " ".join(side.split()) if "  " in side else side.strip()
    return " ".join(side.translate(_FORMAT_CHARACTERS).split())


class Dropping(dict[int, str | None]):
    """A table for ``str.translate`` that drops characters of some Unicode categories.

    Categories are given by name or first letter: 'Z' stands for 'Zs', 'Zl' and 'Zp'.
    """

    def __init__(self, *categories: str) -> None:
        self._categories = categories

    def __missing__(self, code: int) -> str | None:
        is_dropped = unicodedata.category(chr(code)).startswith(self._categories)
        self[code] = None if is_dropped else chr(code)
        return self[code]


_FORMAT_CHARACTERS = Dropping("Cf")  # zero-width spaces, soft hyphens, ...


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
