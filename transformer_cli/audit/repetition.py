"""Duplicate lines, found by their digests."""

import numpy as np

from transformer_cli.data.selection import NO_DIGEST, Digests


def find_repeated(digests: Digests) -> list[tuple[int, int]]:
    """Return the lines that occur earlier.

    Returns:
        The index of each, rising, and that of the first line like it.
    """
    numbers = digests.numbers
    order = np.argsort(numbers, kind="stable")
    ranked = numbers[order]
    again = np.flatnonzero((ranked[1:] == ranked[:-1]) & (ranked[1:] != NO_DIGEST)) + 1
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
    known = np.unique(wanted[wanted != NO_DIGEST])
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
