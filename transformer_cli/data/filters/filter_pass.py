"""Three kinds of filters, by what they have to know of a corpus, and a pass of pairs through them.

The pass looks at each pair once, and decides on all of them at its end.
"""

from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, count
from operator import or_
from typing import Any

import numpy as np

from transformer_cli.config.data_schema import FilterName
from transformer_cli.data.corpus import Digests, find_repeated, is_among


@dataclass(frozen=True)
class _Filter:
    name: FilterName
    summary: str  # of which pairs it rejects, as in 'a side is blank'


@dataclass(frozen=True)
class PairFilter(_Filter):
    """Judges each pair by itself."""

    rejects: Callable[[str, str], bool | str]
    """(source, target) -> whether the pair is left out; or what is wrong with it, in words."""


@dataclass(frozen=True)
class RepeatFilter(_Filter):
    """Rejects pairs that are like an earlier one that is kept."""

    key: Callable[[str, str], str]  # (source, target) -> the text by which pairs are compared


@dataclass(frozen=True)
class OutlierFilter(_Filter):
    """Rejects pairs whose measure is far from the corpus's own."""

    measure: Callable[[str, str], float]  # (source, target) -> a number
    bounds: Callable[[np.ndarray, np.ndarray], tuple[float, float]]
    """(different measures of a corpus, sorted; how often each occurs) -> least and greatest kept"""


Filter = PairFilter | RepeatFilter | OutlierFilter


class FilterPass:
    """Applies filters in order; each pair is rejected by the first filter that rejects it.

    A pair costs at most 8 bytes a filter: a flag, a measure or a digest.

    Args:
        filters: in the order in which they are applied; the first is ``blank``.
        alone: whether each filter but the first judges all pairs, whatever others say.
        typical: a pass of the same filters, over text that tells what is usual; None: this does.
    """

    def __init__(
        self, filters: Sequence[Filter], alone: bool = False, typical: "FilterPass | None" = None
    ) -> None:
        self.filters = filters
        self._columns = [_COLUMNS[type(filter_)](filter_) for filter_ in filters]
        for column, other in zip(self._columns, typical._columns if typical else (), strict=False):
            if isinstance(column, _Measures) and isinstance(other, _Measures):
                column.typical = other.values
        self._alone = alone
        self._sources: list[tuple[int, Collection[str]]] = []  # first pair, and filters, of each
        self._looked_at: list[tuple[_Column, bool]] = []
        self._count = 0

    def begin_source(self, active: Collection[FilterName]) -> None:
        """Begin the pairs of a source, to which these filters are applied."""
        names = {"blank", *active}
        self._sources.append((self._count, names))
        self._looked_at = [
            # What other sources repeat has to be known of all.
            (column, filter_.name in names or isinstance(filter_, RepeatFilter))
            for filter_, column in zip(self.filters, self._columns, strict=True)
        ]

    def add(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Look at the next pairs; return for each whether no more filters need to look at it."""
        self._count += len(pairs)
        is_done = [False] * len(pairs)
        for column, is_looked_at in self._looked_at:
            found = column.look(pairs, is_done if is_looked_at else [True] * len(pairs))
            if not self._alone or column is self._columns[0]:
                is_done = list(map(or_, is_done, found)) if any(found) else is_done
        return is_done

    def decide(self) -> np.ndarray:
        """Return for each pair the place in ``filters`` of the one that rejects it, or -1."""
        verdict = np.full(self._count, -1, np.int8)
        for place, mask in enumerate(self.rejected()):
            verdict[mask] = place
        return verdict

    def rejected(self) -> Iterator[np.ndarray]:
        """Yield for each filter a mask of the pairs that it rejects."""
        left = np.ones(self._count, bool)
        ends = [first for first, _ in self._sources[1:]] + [self._count]
        for place, column in enumerate(self._columns):
            active = np.zeros(self._count, bool)
            for (first, names), end in zip(self._sources, ends, strict=True):
                active[first:end] = self.filters[place].name in names
            mask = column.rejects(left, left & active)
            if not place or not self._alone:
                left = left & ~mask
            yield mask

    def columns(self) -> list[np.ndarray]:
        """Return for each filter what it knows of each pair: a flag, a measure or a digest."""
        return [column.known for column in self._columns]

    def details(self, place: int) -> dict[int, str]:
        """Return what is wrong with the first few pairs that a filter rejects, by their index."""
        column = self._columns[place]
        return column.details if isinstance(column, _Flags) else {}

    def digests(self, name: FilterName) -> Digests:
        """Return by what a ``RepeatFilter`` compares pairs."""
        column = self._columns[[filter_.name for filter_ in self.filters].index(name)]
        assert isinstance(column, _Keys)
        return column.digests


# --- what each kind of filter has to know of a pair: ----------------------------------------------
# look(pairs, is_done) at the next pairs, but at those that are done, as an earlier filter rejects
# them, and return whether each is rejected for certain; rejects(left, active) returns a mask of the
# pairs that are rejected, given one of those that no earlier filter rejects, and one of those of
# sources with the filter.


class _Flags:
    _SHOWN = 3

    def __init__(self, filter_: PairFilter) -> None:
        self._filter = filter_
        self._flags = bytearray()
        self.details: dict[int, str] = {}

    def look(self, pairs: Sequence[tuple[str, str]], is_done: Sequence[bool]) -> list[bool]:
        rejects = self._filter.rejects
        found = [
            False if done else rejects(*pair) for pair, done in zip(pairs, is_done, strict=True)
        ]
        flags = list(map(bool, found))
        if any(flags) and len(self.details) < self._SHOWN:
            for place in list(compress(count(), flags))[: self._SHOWN - len(self.details)]:
                wrong = found[place]
                self.details[len(self._flags) + place] = wrong if isinstance(wrong, str) else ""
        self._flags += bytes(flags)
        return flags

    def rejects(self, left: np.ndarray, active: np.ndarray) -> np.ndarray:
        return np.asarray(active & self.known)

    @property
    def known(self) -> np.ndarray:
        return np.frombuffer(self._flags, bool)


class _Measures:
    def __init__(self, filter_: OutlierFilter) -> None:
        self._filter = filter_
        self.values = array("d")
        self.typical: array[float] | None = None  # of another text, which tells what is usual

    def look(self, pairs: Sequence[tuple[str, str]], is_done: Sequence[bool]) -> list[bool]:
        measure = self._filter.measure
        self.values.extend(
            [np.nan if done else measure(*pair) for pair, done in zip(pairs, is_done, strict=True)]
        )
        return [False] * len(pairs)

    def rejects(self, left: np.ndarray, active: np.ndarray) -> np.ndarray:
        usual = self.known[active] if self.typical is None else np.frombuffer(self.typical)
        low, high = self._filter.bounds(*np.unique(usual[~np.isnan(usual)], return_counts=True))
        return np.asarray(active & ((self.known < low) | (self.known > high)))

    @property
    def known(self) -> np.ndarray:
        return np.frombuffer(self.values)


class _Keys:
    def __init__(self, filter_: RepeatFilter) -> None:
        self._filter = filter_
        self.digests = Digests()

    def look(self, pairs: Sequence[tuple[str, str]], is_done: Sequence[bool]) -> list[bool]:
        key = self._filter.key
        self.digests.extend(
            [None if done else key(*pair) for pair, done in zip(pairs, is_done, strict=True)]
        )
        return [False] * len(pairs)

    def rejects(self, left: np.ndarray, active: np.ndarray) -> np.ndarray:
        digests = self.known
        mask = left & is_among(digests, find_repeated(digests[left]))
        places = np.flatnonzero(mask)
        _, first = np.unique(digests[places], return_index=True)
        mask[places[first]] = False
        return np.asarray(mask & active)

    @property
    def known(self) -> np.ndarray:
        return self.digests.numbers


_Column = _Flags | _Measures | _Keys
_COLUMNS: dict[type[Filter], Callable[[Any], _Column]] = {
    PairFilter: _Flags,
    OutlierFilter: _Measures,
    RepeatFilter: _Keys,
}
