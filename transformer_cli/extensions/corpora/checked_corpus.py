"""What checks know about the kind ``corpus``: its sources, and what each filter would reject."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from transformer_cli.base.errors import MissingExtraError
from transformer_cli.base.messages import show_progress
from transformer_cli.cli.display import align_columns
from transformer_cli.data.corpus import ParallelFiles, in_batches
from transformer_cli.extensions.checks.checked_kind import CheckedKind, FilterReport, Sources
from transformer_cli.extensions.checks.filter_names import FILTER_NAMES
from transformer_cli.extensions.checks.rules import Filter, FilterPass, build_filters
from transformer_cli.extensions.corpora.prepared import given_sources, open_configured
from transformer_cli.extensions.corpora.settings import CorpusData, SourceConfig

_MOSTLY = 0.5


class CheckedCorpus(CheckedKind):
    """Splits that are drawn from sources."""

    data: CorpusData

    def files(self) -> tuple[Sources, Sources]:
        training = {f"data.sources[{n}]": source for n, source in enumerate(self.data.sources)}
        return _text_files(training), _text_files(given_sources(self.data))

    def advise_near(self, split: str) -> str:
        if split in given_sources(self.data):
            return ""
        if self.data.split is not None and self.data.split.near is not None:
            return "; they are in data.replay, which data.split.near leaves as it is"
        return "; to leave the copies out of training, set data.split: {near: apart}"

    def try_filters(self) -> FilterReport:
        effects = find_filter_effects(self.data)
        return FilterReport([*map(asdict, effects)], [*_lines(effects)], _warn(effects))


def _text_files(sources: Mapping[str, SourceConfig]) -> Sources:
    return {
        name: ParallelFiles(source.src, source.tgt)
        for name, source in sources.items()
        if source.src is not None and source.tgt is not None
    }


@dataclass(frozen=True)
class FilterEffect:
    """What a filter would reject of all sources, alone but for blank pairs."""

    name: str
    is_on: bool  # whether it is applied to any source
    count: int | None = None  # pairs; None: it was not tried, as its package is not installed
    share: float | None = None  # of all pairs, from 0 to 1
    first: int | None = None  # number of the first such pair of all, from 1
    missing: str | None = None  # message about a package that is not installed


def find_filter_effects(data: CorpusData) -> list[FilterEffect]:
    """Read the sources once and return what each filter would reject, on or off.

    Raises:
        CorpusError: a source cannot be read.
        MissingExtraError: a format needs a package that is not installed.
    """
    filters: list[Filter] = []
    missing: dict[str, str] = {}
    for name in FILTER_NAMES:
        try:
            filters.append(build_filters([name], data.src_lang, data.tgt_lang)[-1])
        except MissingExtraError as error:
            missing[name] = str(error)
    tried = FilterPass(filters)
    on = {"blank"}
    for source in data.sources:
        on.update(data.filters if source.filters is None else source.filters)
        for batch in in_batches(
            show_progress(open_configured(source, data).pairs(), source.name, " pairs")
        ):
            tried.add(batch)
    effects = [FilterEffect(name, name in on, missing=why) for name, why in missing.items()]
    for filter_, mask in zip(filters, tried.rejected(), strict=True):
        places = (np.flatnonzero(mask) + 1).tolist()
        first = places[0] if places else None
        is_on, share = filter_.name in on, len(places) / len(mask)
        effects.append(FilterEffect(filter_.name, is_on, len(places), share, first))
    return sorted(effects, key=lambda effect: FILTER_NAMES.index(effect.name))


def _warn(effects: Sequence[FilterEffect]) -> str | None:
    """Return a warning if most text is in other languages than the data names, of any script."""
    for effect in effects:
        if effect.name == "language" and not effect.is_on and (effect.share or 0.0) > _MOSTLY:
            return (
                "sources: most pairs are in other languages than data.src_lang and data.tgt_lang, "
                "or their sides are swapped: see the filters below"
            )
    return None


def _lines(effects: Sequence[FilterEffect]) -> Iterator[str]:
    rows = [("filter", "on", "would reject", "share", "first pair")]
    for effect in effects:
        cells = ("not tried", "-", "-")
        if effect.count is not None:
            first = "-" if effect.first is None else f"{effect.first:,}"
            cells = (f"{effect.count:,}", f"{effect.share:.2%}", first)
        rows.append((effect.name, "yes" if effect.is_on else "no", *cells))
    yield from align_columns(rows)
    yield from (f"note: not tried: {effect.missing}" for effect in effects if effect.missing)
