"""Prepare a corpus of several sources: read, filter and split it, and write it as aligned text."""

import hashlib
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np

from transformer_cli.config.data_schema import CorpusData, FilterName, SourceConfig
from transformer_cli.data import prepared
from transformer_cli.data.corpus import ConcatenatedSources, Digests, PairProgress, fold_side
from transformer_cli.data.filters.filter_pass import Filter, FilterPass
from transformer_cli.data.filters.rules import build_filters
from transformer_cli.data.readers.opening import SourceReader
from transformer_cli.data.selection import LEFT_OUT, TEST, TRAIN, VAL, draw_splits
from transformer_cli.errors import CorpusError
from transformer_cli.files import remove_leftovers

HELD_OUT = "held_out"
"""Reason why a pair is left out that shares a side with val or test."""
DROPPED = "dropped.tsv"
_EXAMPLES = 20
_SPLITS = {TRAIN: "train", VAL: "val", TEST: "test"}
_SPOOL = "pairs"
"""All pairs of all sources, while it is decided about them."""


class DroppedPair(NamedTuple):
    """A pair that is left out."""

    number: int
    """Its place among all pairs of all sources, from 1."""
    source: str
    reason: str
    """Name of the filter, or ``HELD_OUT``."""
    src: str
    tgt: str


OnDropped = Callable[[DroppedPair], object]


def prepare_corpus(
    data: CorpusData,
    directory: Path,
    progress: PairProgress,
    on_dropped: OnDropped = lambda _: None,
) -> prepared.CorpusRecord:
    """Write a corpus into ``directory``, which must not exist, or be empty.

    The sources are read once; memory grows by 46 bytes a pair (measured), by 79 where each occurs
    twice. ``on_dropped`` is called with each pair that is left out, in order.

    Raises:
        CorpusError: a source cannot be read, or too few pairs are left.
        MissingExtraError: a format or a filter needs a package that is not installed.
        OSError: the files cannot be written.
    """
    artifact = prepared.corpus_artifact(directory)
    return artifact.make(lambda made: _write_corpus(data, made, progress, on_dropped))


def is_prepared(data: CorpusData, directory: Path) -> bool:
    """Return whether ``directory`` has the splits of these settings, of the sources as they are.

    The settings of sources, filters and drawn splits are not compared: the caller knows them.
    """
    record = prepared.read_corpus_record(directory)
    if record is None:
        return False
    sources = _concatenate(_open_sources(data))
    mtime_key = sources.mtime_key()
    if mtime_key is not None and mtime_key == record.mtime_key:
        return True
    return record.made_of == {"sources": sources.source_sha256()}


@dataclass(frozen=True)
class UnpreparedSplit:
    """A split of a corpus that is prepared anew, in a temporary directory, by each pass over it."""

    data: CorpusData
    split: str

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield each pair, in order; raise what ``prepare_corpus`` does."""
        with tempfile.TemporaryDirectory(prefix="transformer-cli-") as directory:
            corpus = Path(directory) / "corpus"
            prepare_corpus(self.data, corpus, lambda pairs, _: pairs)
            yield from prepared.split_path(corpus, self.split).pairs()

    def source_sha256(self) -> str:
        """Return a SHA-256 of the settings and the sources."""
        sums = "".join(reader.source_sha256() for reader in _open_all(self.data))
        settings = self.data.model_dump_json()
        return hashlib.sha256(f"{self.split} {settings} {sums}".encode()).hexdigest()

    def mtime_key(self) -> None:
        """Return None: settings decide too."""


@dataclass(frozen=True)
class _Source:
    name: str
    config: SourceConfig
    filters: Sequence[FilterName]
    reader: SourceReader


def _open_sources(data: CorpusData) -> list[_Source]:
    return [
        _Source(
            f"sources[{number}] {source.path.name}",
            source,
            data.filters if source.filters is None else source.filters,
            prepared.open_configured(source, data),
        )
        for number, source in enumerate(data.sources)
    ]


def _concatenate(sources: Sequence[_Source]) -> ConcatenatedSources:
    return ConcatenatedSources(tuple(source.reader for source in sources))


def _open_all(data: CorpusData) -> list[SourceReader]:
    """Return the readers of all sources, also of the splits that are not drawn."""
    return [
        prepared.open_configured(source, data)
        for source in (*data.sources, *prepared.given_sources(data).values())
    ]


def _write_corpus(
    data: CorpusData, directory: Path, progress: PairProgress, on_dropped: OnDropped
) -> prepared.CorpusRecord:
    """Write a corpus into a directory that is there; see ``prepare_corpus``."""
    sources = _open_sources(data)
    text = _concatenate(sources)
    mtime_key, source_sha256 = text.mtime_key(), text.source_sha256()
    # The first pair of each, so that a wrong name is not found hours later.
    for reader in _open_all(data):
        next(reader.pairs(), None)
    fates = _decide(data, sources, directory, progress)
    now = text.mtime_key()
    if (now is None or now != mtime_key) and text.source_sha256() != source_sha256:
        raise CorpusError(
            "data.sources: files have changed while they were read; start again when nobody "
            "writes to them"
        )
    return prepared.CorpusRecord(
        made_of={"sources": source_sha256},
        mtime_key=mtime_key,
        sources=_write_splits(fates, sources, directory, on_dropped),
        given={
            name: prepared.write_given_split(name, source, data, directory)
            for name, source in prepared.given_sources(data).items()
        },
    )


class _Fates(NamedTuple):
    """What becomes of all pairs."""

    sizes: list[int]
    """Pairs of each source."""
    numbers: np.ndarray
    """Of each pair: the split that it is in, or a greater number if it is left out."""
    names: dict[int, str]
    """By these numbers: of splits, then of the reasons why pairs are left out."""


def _decide(
    data: CorpusData, sources: Sequence[_Source], directory: Path, progress: PairProgress
) -> _Fates:
    """Read all pairs into the spool, and decide what becomes of them."""
    wanted = {name for source in sources for name in source.filters}
    filters = build_filters(wanted, data.src_lang, data.tgt_lang)
    filter_pass, src_digests, tgt_digests = FilterPass(filters), Digests(), Digests()
    sizes = []
    with prepared.open_writer(prepared.split_path(directory, _SPOOL)) as write:
        for source in sources:
            filter_pass.begin_source(source.filters)
            count = 0
            for src, tgt in progress(prepared.readable_pairs(source.reader), source.name):
                count += 1
                write(src, tgt)
                filter_pass.add(src, tgt)
                if data.split is not None:
                    src_digests.add(fold_side(src))
                    tgt_digests.add(fold_side(tgt))
            sizes.append(count)
    reasons = filter_pass.decide()
    kept = reasons == -1
    if not kept.any():
        raise _nothing_left(reasons, filters)
    splits = np.where(kept, TRAIN, LEFT_OUT).astype(np.int8)
    if data.split is not None:
        may_hold_out = np.repeat([source.config.split for source in sources], sizes)
        sides = (src_digests.numbers, tgt_digests.numbers)
        splits = draw_splits(sides, kept, may_hold_out, data.split)
    reasons[kept] = len(filters)
    numbers = np.where(splits == LEFT_OUT, len(_SPLITS) + reasons, splits)
    names = [*_SPLITS.values(), *(filter_.name for filter_ in filters), HELD_OUT]
    return _Fates(sizes, numbers, dict(enumerate(names)))


def _nothing_left(reasons: np.ndarray, filters: Sequence[Filter]) -> CorpusError:
    counts = np.bincount(reasons)
    worst, count = filters[int(counts.argmax())], counts.max()
    remedy = "mend the text" if worst.name == "blank" else "leave that filter out, or mend the text"
    return CorpusError(
        f"data.sources: no pair is left after the filters; of {len(reasons):,}, {count:,} are "
        f"rejected by '{worst.name}' ({worst.summary}); {remedy}"
    )


def _write_splits(
    fates: _Fates, sources: Sequence[_Source], directory: Path, on_dropped: OnDropped
) -> list[prepared.SourceRecord]:
    """Write each pair into the files of its split; return what became of each source."""
    spool = prepared.split_path(directory, _SPOOL)
    with ExitStack() as stack:
        writers = {
            split: stack.enter_context(prepared.open_writer(prepared.split_path(directory, name)))
            for split, name in _SPLITS.items()
            if (fates.numbers == split).any()
        }
        owners = chain.from_iterable(map(repeat, sources, fates.sizes))
        rows = zip(spool.pairs(), map(int, fates.numbers), owners, strict=True)
        for place, ((src, tgt), fate, owner) in enumerate(rows, start=1):
            if fate in writers:
                writers[fate](src, tgt)
            else:
                on_dropped(DroppedPair(place, owner.name, fates.names[fate], src, tgt))
    spool.src.unlink()
    spool.tgt.unlink()
    records = []
    for source, size, end in zip(sources, fates.sizes, np.cumsum(fates.sizes), strict=True):
        present, counts = np.unique(fates.numbers[end - size : end], return_counts=True)
        by_fate = dict(zip(present.tolist(), counts.tolist(), strict=True))
        records.append(
            prepared.SourceRecord(
                name=source.name,
                pairs=size,
                bad=source.reader.bad.count,
                first_bad=source.reader.bad.why,
                removed={fates.names[n]: by_fate[n] for n in by_fate if n not in _SPLITS},
                kept={fates.names[n]: by_fate[n] for n in by_fate if n in _SPLITS},
            )
        )
    return records


@dataclass(frozen=True)
class Reason:
    """A filter or ``HELD_OUT``, and the pairs that it removes."""

    name: str
    summary: str
    by_source: list[int]
    """Pairs of each source."""
    examples: list[DroppedPair]
    """A sample of them, in their order."""

    @property
    def count(self) -> int:
        """Pairs of all sources."""
        return sum(self.by_source)


@dataclass(frozen=True)
class Cleaning:
    """What became of the pairs of a corpus."""

    record: prepared.CorpusRecord
    reasons: list[Reason]
    """In the order in which they are looked for; those that removed nothing are there too."""

    @property
    def pairs(self) -> int:
        """All pairs that were read."""
        return sum(source.pairs for source in self.record.sources)

    @property
    def bad(self) -> int:
        """Units that could not be read."""
        return sum(source.bad for source in self.record.sources)

    @property
    def kept(self) -> Counter[str]:
        """Pairs that are left, by split."""
        return sum((Counter(source.kept) for source in self.record.sources), Counter())


def clean_corpus(data: CorpusData, directory: Path, progress: PairProgress) -> Cleaning:
    """Write the pairs that are kept and those that are not into the new directory ``directory``.

    Raises what ``prepare_corpus`` does.
    """
    # An even sample of each reason's pairs (reservoir sampling), the same one every time.
    draw = random.Random(1)
    seen: Counter[str] = Counter()
    examples: defaultdict[str, list[DroppedPair]] = defaultdict(list)
    remove_leftovers(directory.absolute().parent, others=[directory.name])

    def write(made: Path) -> prepared.CorpusRecord:
        with (made / DROPPED).open("w", encoding="utf-8", newline="") as file:
            file.write(f"pair\tsource\tfilter\t{data.src_lang}\t{data.tgt_lang}\n")

            def drop(pair: DroppedPair) -> None:
                seen[pair.reason] += 1
                sample = examples[pair.reason]
                if len(sample) < _EXAMPLES:
                    sample.append(pair)
                elif (place := draw.randrange(seen[pair.reason])) < _EXAMPLES:
                    sample[place] = pair
                cells = (str(cell).replace("\t", " ") for cell in pair)
                file.write("\t".join(cells) + "\n")

            record = _write_corpus(data, made, progress, drop)
            # The same text gives the same bytes, whenever it was written.
            return record.model_copy(update={"mtime_key": None})

    record = prepared.corpus_artifact(directory).make(write)
    reasons = [
        Reason(
            name,
            summary,
            [source.removed.get(name, 0) for source in record.sources],
            sorted(examples[name]),
        )
        for name, summary in _summarize_reasons(data).items()
    ]
    return Cleaning(record, reasons)


def is_written(name: str) -> bool:
    """Return whether ``clean_corpus`` may write a file of this name, whatever its case."""
    return name.lower() in (prepared.RECORD, DROPPED) or name.lower().endswith((".src", ".tgt"))


def _summarize_reasons(data: CorpusData) -> dict[str, str]:
    names = {*data.filters, *(name for source in data.sources for name in source.filters or [])}
    filters = build_filters(names, data.src_lang, data.tgt_lang)
    summaries: dict[str, str] = {filter_.name: filter_.summary for filter_ in filters}
    if data.split is not None:
        summaries[HELD_OUT] = "a side occurs in val or test, which were drawn"
    return summaries
