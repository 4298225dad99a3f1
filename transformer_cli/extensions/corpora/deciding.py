"""Filters over a corpus in parts: workers look at pairs, then the filters decide one by one.

Of each pair a worker notes what ``FilterPass`` does, a flag, a measure or a digest for each filter.
Flags decide by themselves. Of measures, how often each value occurs in all parts gives the bounds;
digests are compared by partitions (``spool.py``). What was ruled so far is small, so each worker
applies it anew to the part that it has.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np

from transformer_cli.data.corpus import in_batches
from transformer_cli.extensions.checks.digests import Digests, fold_side
from transformer_cli.extensions.checks.rules import (
    Filter,
    FilterPass,
    OutlierFilter,
    RepeatFilter,
    build_filters,
)
from transformer_cli.extensions.corpora.spool import KeyExchange, Part, new_file

REASON = "reason"
"""Column of the place of the filter that rejects a pair, or -1."""

Ruling = tuple[float, float] | KeyExchange | None
"""What a filter goes by beside the pair: bounds, or digests that were compared."""


@dataclass(frozen=True)
class Filtering:
    """The filters of a corpus, as they are sent to workers."""

    spool: Path
    names: tuple[str, ...]
    languages: tuple[str, str]
    active: tuple[frozenset[str], ...]
    """Names of the filters of each source."""
    with_sides: bool
    """Whether digests of the sides are needed too."""

    @property
    def filters(self) -> list[Filter]:
        """All filters, in the order in which they are applied."""
        return _build(self.names, *self.languages)


@cache  # some take half a second
def _build(names: tuple[str, ...], src_lang: str, tgt_lang: str) -> list[Filter]:
    return build_filters(names, src_lang, tgt_lang)


def write_part(
    filtering: Filtering, name: str, source: int, pairs: Iterable[tuple[str, str]]
) -> Part:
    """Write pairs into the spool, and what is to be known of them."""
    judge = FilterPass(filtering.filters, filtering.active[source])
    part = Part(filtering.spool / name, source, 0)
    src_digests, tgt_digests = Digests(), Digests()
    with new_file(part.path("src.txt")) as src_file, new_file(part.path("tgt.txt")) as tgt_file:
        for batch in in_batches(pairs):
            src_file.write("".join([f"{src}\n" for src, _ in batch]).encode())
            tgt_file.write("".join([f"{tgt}\n" for _, tgt in batch]).encode())
            judge.add(batch)
            if filtering.with_sides:
                src_digests.extend([fold_side(src) for src, _ in batch])
                tgt_digests.extend([fold_side(tgt) for _, tgt in batch])
    columns = judge.columns()
    for place, column in enumerate(columns):
        part.save(f"filter-{place}", column)
    if filtering.with_sides:
        part.save("src", src_digests.numbers)
        part.save("tgt", tgt_digests.numbers)
    return Part(part.stem, source, len(columns[0]))


def decide(
    filtering: Filtering, parts: Sequence[Part], partitions: int, executor: Executor
) -> np.ndarray:
    """Write the column ``REASON`` of all parts.

    Return how many pairs each filter rejects, and then how many none does.
    """
    rulings: list[Ruling] = []
    for place, filter_ in enumerate(filtering.filters):
        match filter_:
            case OutlierFilter(name=name):
                concerned = [part for part in parts if name in filtering.active[part.source]]
                count = partial(_count_measures, filtering, tuple(rulings))
                list(executor.map(count, concerned))
                rulings.append(filter_.bounds(*_merge_counts(concerned, place)))
            case RepeatFilter():
                exchange = KeyExchange(filtering.spool, f"filter-{place}", len(parts), partitions)
                scatter = partial(_scatter_keys, filtering, tuple(rulings), exchange)
                list(executor.map(scatter, parts))
                list(executor.map(exchange.compare, range(partitions)))
                rulings.append(exchange)
            case _:
                rulings.append(None)
    conclude = partial(_conclude, filtering, tuple(rulings))
    return np.asarray(np.sum(list(executor.map(conclude, parts)), axis=0))


def _apply(filtering: Filtering, rulings: Sequence[Ruling], part: Part) -> np.ndarray:
    """Return the reason of each pair as far as the first filters have ruled."""
    reasons = np.full(part.count, -1, np.int8)
    for place, (filter_, ruling) in enumerate(zip(filtering.filters, rulings, strict=False)):
        if filter_.name not in filtering.active[part.source]:
            continue
        left = np.flatnonzero(reasons < 0)
        match ruling:
            case None:
                is_rejected = _known(part, place, np.bool_)[left]
            case KeyExchange():
                is_rejected = ruling.find_repeats(part.place, _known(part, place, np.uint64)[left])
            case low, high:
                measures = _known(part, place, np.float64)[left]
                is_rejected = (measures < low) | (measures > high)
        reasons[left[is_rejected]] = place
    return reasons


def _known(part: Part, place: int, kind: type[np.generic]) -> np.ndarray:
    """Return what is known of the pairs for the filter at a place."""
    return part.load(f"filter-{place}", kind)


def _count_measures(filtering: Filtering, rulings: Sequence[Ruling], part: Part) -> None:
    """Write how often each measure for the next filter occurs."""
    place = len(rulings)
    measures = _known(part, place, np.float64)[_apply(filtering, rulings, part) < 0]
    values, counts = np.unique(measures, return_counts=True)
    part.save(f"values-{place}", values)
    part.save(f"counts-{place}", counts.astype(np.int64))


def _merge_counts(parts: Iterable[Part], place: int) -> tuple[np.ndarray, np.ndarray]:
    values, counts = np.empty(0), np.empty(0, np.int64)
    for part in parts:
        both = np.concatenate((values, part.load(f"values-{place}", np.float64)))
        added = np.concatenate((counts, part.load(f"counts-{place}", np.int64)))
        values, inverse = np.unique(both, return_inverse=True)
        counts = np.zeros(len(values), np.int64)
        np.add.at(counts, inverse, added)
    return values, counts


def _scatter_keys(
    filtering: Filtering, rulings: Sequence[Ruling], exchange: KeyExchange, part: Part
) -> None:
    """Write the digests for the next filter of the pairs that are left."""
    is_left = _apply(filtering, rulings, part) < 0
    exchange.scatter(part.place, _known(part, len(rulings), np.uint64)[is_left])


def _conclude(filtering: Filtering, rulings: Sequence[Ruling], part: Part) -> np.ndarray:
    reasons = _apply(filtering, rulings, part)
    part.save(REASON, reasons)
    reasons[reasons < 0] = len(rulings)
    return np.bincount(reasons, minlength=len(rulings) + 1)
