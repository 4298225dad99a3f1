"""What each filter would take of a corpus, whether it is on or off."""

from dataclasses import dataclass

import numpy as np

from transformer_cli.config.data_schema import CorpusData, FilterName
from transformer_cli.data.corpus import PairProgress
from transformer_cli.data.filters.registry import FILTER_NAMES, build_filters
from transformer_cli.data.readers.opening import open_source
from transformer_cli.data.selection import FilterPass
from transformer_cli.errors import MissingExtraError


@dataclass(frozen=True)
class FilterEffect:
    """What a filter would take of all sources, alone but for blank pairs."""

    name: FilterName
    is_on: bool
    """Whether it is applied to any source."""
    count: int | None
    """Pairs; None: it was not tried, as its package is not installed."""
    share: float | None
    """Of all pairs, from 0 to 1."""
    first: int | None
    """Number of the first such pair among those of all sources, from 1; None: there is none."""
    missing: str | None
    """Message about a package that is not installed."""


def find_filter_effects(data: CorpusData, progress: PairProgress) -> list[FilterEffect]:
    """Read the sources once and return what each filter would take.

    Raises:
        CorpusError: a source cannot be read.
        MissingExtraError: a format needs a package that is not installed.
    """
    judges: dict[FilterName, FilterPass | str] = {}
    for name in FILTER_NAMES:
        try:
            judges[name] = FilterPass(build_filters([name], data.src_lang, data.tgt_lang))
        except MissingExtraError as error:
            judges[name] = str(error)
    tried = [(name, judge) for name, judge in judges.items() if isinstance(judge, FilterPass)]
    on: set[FilterName] = {"blank"}
    for source in data.sources:
        on.update(data.filters if source.filters is None else source.filters)
        for name, judge in tried:
            judge.begin_source([name])
        reader = open_source(source, data.src_lang, data.tgt_lang, data.max_bad_units)
        for src, tgt in progress(reader.pairs(), source.path.name):
            for _, judge in tried:
                judge.add(src, tgt)
    return [_effect(name, judge, name in on) for name, judge in judges.items()]


def _effect(name: FilterName, judge: FilterPass | str, is_on: bool) -> FilterEffect:
    if isinstance(judge, str):
        return FilterEffect(name, is_on, None, None, None, judge)
    verdict = judge.decide()
    # Blank pairs are the other ones that are taken.
    taken = np.flatnonzero(verdict == len(judge.filters) - 1)
    first = int(taken[0]) + 1 if len(taken) else None
    return FilterEffect(name, is_on, len(taken), len(taken) / len(verdict), first, None)
