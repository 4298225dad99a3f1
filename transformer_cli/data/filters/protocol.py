"""Three kinds of filters, by what they have to know of a corpus."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from transformer_cli.config.data_schema import FilterName


@dataclass(frozen=True)
class PairFilter:
    """Judges each pair by itself."""

    name: FilterName
    summary: str
    """What it takes, as in 'a side is blank'."""
    takes: Callable[[str, str], bool]
    """(source, target) -> whether the pair is left out."""


@dataclass(frozen=True)
class RepeatFilter:
    """Takes pairs that are like an earlier one that is kept."""

    name: FilterName
    summary: str
    key: Callable[[str, str], str]
    """(source, target) -> the text by which pairs are compared."""


@dataclass(frozen=True)
class OutlierFilter:
    """Takes pairs whose measure is far from the corpus's own."""

    name: FilterName
    summary: str
    measure: Callable[[str, str], float]
    """(source, target) -> a number."""
    takes: Callable[[np.ndarray], np.ndarray]
    """Measures of all pairs that are left -> which of them are left out."""


Filter = PairFilter | RepeatFilter | OutlierFilter
