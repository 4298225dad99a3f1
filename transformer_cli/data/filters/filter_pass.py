"""Three kinds of filters, by what they have to know of a corpus, and a pass of pairs through them.

The pass looks at each pair once. Of a corpus that is filtered, ``deciding.py`` decides by what was
noted; where a text is only checked, each filter does so by itself.
"""

from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, count
from operator import or_
from typing import Any

import numpy as np

from transformer_cli.config.data_schema import FilterName
from transformer_cli.data.corpus import NO_DIGEST, Digests, find_repeated, is_among


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
    """Notes of each pair what filters, in the order in which they are applied, have to know of it.

    What one rejects for certain is not looked at by the next. A pair costs at most 8 bytes a
    filter: a flag, a measure or a digest.

    Args:
        filters: the first is ``blank``.
        active: the names of those that are applied to these pairs; None: each judges alone, all
            pairs that are not blank.
        typical: a pass of the same filters, over text that tells what is usual; None: this does.
    """

    def __init__(
        self,
        filters: Sequence[Filter],
        active: Collection[FilterName] | None = None,
        typical: "FilterPass | None" = None,
    ) -> None:
        self.filters = filters
        self._active = active
        self._columns = [_COLUMNS[type(filter_)](filter_) for filter_ in filters]
        for column, other in zip(self._columns, typical._columns if typical else (), strict=False):
            if isinstance(column, _Measures) and isinstance(other, _Measures):
                column.typical = other.values

    def add(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Look at the next pairs; return for each whether no more filters need to look at it."""
        is_done = [False] * len(pairs)
        for place, (filter_, column) in enumerate(zip(self.filters, self._columns, strict=True)):
            # What other sources repeat has to be known of all.
            is_looked_at = self._active is None or filter_.name in self._active
            is_looked_at |= isinstance(filter_, RepeatFilter)
            found = column.look(pairs, is_done if is_looked_at else [True] * len(pairs))
            if any(found) and (not place or self._active is not None):
                is_done = list(map(or_, is_done, found))
        return is_done

    def rejected(self) -> Iterator[np.ndarray]:
        """Yield for each filter a mask of the pairs that it rejects, where each judges alone."""
        return (column.rejects() for column in self._columns)

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
# them, and return whether each is rejected for certain; rejects() returns a mask of the pairs that
# are rejected, of those that were looked at.


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

    def rejects(self) -> np.ndarray:
        return self.known

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

    def rejects(self) -> np.ndarray:
        usual = self.known if self.typical is None else np.frombuffer(self.typical)
        low, high = self._filter.bounds(*np.unique(usual[~np.isnan(usual)], return_counts=True))
        return np.asarray((self.known < low) | (self.known > high))

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

    def rejects(self) -> np.ndarray:
        digests = self.known
        mask = is_among(digests, find_repeated(digests[digests != NO_DIGEST]))
        places = np.flatnonzero(mask)
        _, first = np.unique(digests[places], return_index=True)
        mask[places[first]] = False
        return mask

    @property
    def known(self) -> np.ndarray:
        return self.digests.numbers


_Column = _Flags | _Measures | _Keys
_COLUMNS: dict[type[Filter], Callable[[Any], _Column]] = {
    PairFilter: _Flags,
    OutlierFilter: _Measures,
    RepeatFilter: _Keys,
}
