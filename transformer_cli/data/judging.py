"""Which pairs of a corpus the filters take: one pass over the pairs, then a decision on all."""

from array import array
from collections.abc import Collection, Sequence
from typing import Protocol

import numpy as np

from transformer_cli.config.data_schema import FilterName
from transformer_cli.data.digests import Digests, find_repeated, is_among
from transformer_cli.data.filters.protocol import (
    Filter,
    OutlierFilter,
    PairFilter,
    RepeatFilter,
)


class FilterPass:
    """Applies filters in order, so that each pair is taken by the first filter that takes it.

    A pair costs at most 8 bytes a filter: a flag, a measure or a digest.

    Args:
        filters: in the order in which they are applied.
    """

    def __init__(self, filters: Sequence[Filter]) -> None:
        self.filters = filters
        self._columns = [_column(each) for each in filters]
        self._sources: list[tuple[int, Collection[str]]] = []
        """First pair of each source, and its filters."""
        self._looked_at: list[tuple[_Column, bool]] = []
        self._count = 0

    def begin_source(self, active: Collection[FilterName]) -> None:
        """Begin the pairs of a source, to which these filters are applied."""
        names = {"blank", *active}
        self._sources.append((self._count, names))
        self._looked_at = [
            # What other sources repeat has to be known of all.
            (column, each.name in names or isinstance(each, RepeatFilter))
            for each, column in zip(self.filters, self._columns, strict=True)
        ]

    def add(self, src: str, tgt: str) -> None:
        """Look at the next pair."""
        self._count += 1
        is_taken = False
        for column, is_looked_at in self._looked_at:
            if is_taken or not is_looked_at:
                column.skip()
            else:
                is_taken = column.look(src, tgt)

    def decide(self) -> np.ndarray:
        """Return for each pair the place in ``filters`` of the one that takes it, or -1."""
        verdict = np.full(self._count, -1, np.int8)
        for place, (each, column) in enumerate(zip(self.filters, self._columns, strict=True)):
            left = verdict == -1
            verdict[column.takes(left, left & self._is_active(each.name))] = place
        return verdict

    def _is_active(self, name: FilterName) -> np.ndarray:
        """Return a mask of the pairs of sources that have this filter."""
        mask = np.zeros(self._count, bool)
        ends = [first for first, _ in self._sources[1:]] + [self._count]
        for (first, names), end in zip(self._sources, ends, strict=True):
            mask[first:end] = name in names
        return mask


class _Column(Protocol):
    """What a filter has to know of each pair."""

    def look(self, src: str, tgt: str) -> bool:
        """Look at the next pair; return whether it is taken for certain."""

    def skip(self) -> None:
        """Note that the next pair is taken by an earlier filter."""

    def takes(self, left: np.ndarray, may_take: np.ndarray) -> np.ndarray:
        """Return a mask of the pairs that the filter takes.

        Args:
            left: mask of the pairs that no earlier filter takes.
            may_take: those of them of sources that have the filter.
        """


def _column(each: Filter) -> _Column:
    match each:
        case PairFilter():
            return _Flags(each)
        case OutlierFilter():
            return _Measures(each)
        case RepeatFilter():
            return _Keys(each)


class _Flags:
    def __init__(self, each: PairFilter) -> None:
        self._filter = each
        self._flags = bytearray()

    def look(self, src: str, tgt: str) -> bool:
        is_taken = self._filter.takes(src, tgt)
        self._flags.append(is_taken)
        return is_taken

    def skip(self) -> None:
        self._flags.append(False)

    def takes(self, left: np.ndarray, may_take: np.ndarray) -> np.ndarray:
        flags = np.frombuffer(self._flags, bool)
        taken: np.ndarray = may_take & flags
        return taken


class _Measures:
    def __init__(self, each: OutlierFilter) -> None:
        self._filter = each
        self._values = array("d")

    def look(self, src: str, tgt: str) -> bool:
        self._values.append(self._filter.measure(src, tgt))
        return False

    def skip(self) -> None:
        self._values.append(np.nan)

    def takes(self, left: np.ndarray, may_take: np.ndarray) -> np.ndarray:
        taken = np.zeros(len(left), bool)
        taken[may_take] = self._filter.takes(np.frombuffer(self._values)[may_take])
        return taken


class _Keys:
    def __init__(self, each: RepeatFilter) -> None:
        self._filter = each
        self._digests = Digests()

    def look(self, src: str, tgt: str) -> bool:
        self._digests.add(self._filter.key(src, tgt))
        return False

    def skip(self) -> None:
        self._digests.skip()

    def takes(self, left: np.ndarray, may_take: np.ndarray) -> np.ndarray:
        digests = self._digests.numbers
        taken: np.ndarray = left & is_among(digests, find_repeated(digests[left]))
        places = np.flatnonzero(taken)
        _, first = np.unique(digests[places], return_index=True)
        taken[places[first]] = False
        taken &= may_take
        return taken
