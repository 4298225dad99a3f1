"""Prepare a corpus of several sources: read, filter and split it, and write it as aligned text.

A prepared corpus is a directory with two files a split, ``train.src`` and ``train.tgt`` say, and
sources.json, the record of what became of the sources. The pairs of a split are in the order of the
sources, so that the record tells which source a pair is from.
"""

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO

import numpy as np
from pydantic import BaseModel, ConfigDict

from transformer_cli.config.schema import CorpusData, FilterName, SourceConfig
from transformer_cli.data.checksummed_json import read_checksummed, write_checksummed
from transformer_cli.data.corpus import ParallelFiles, ParallelText
from transformer_cli.data.digests import Digests
from transformer_cli.data.filters.registry import build_filters
from transformer_cli.data.judging import Judge
from transformer_cli.data.readers.opening import SourceReader, open_source
from transformer_cli.data.splitting import LEFT_OUT, TEST, TRAIN, VAL, Sides, draw_splits
from transformer_cli.data.streamed import ConcatenatedSources, PairProgress, PairSource
from transformer_cli.errors import CorpusError
from transformer_cli.files import whole_directory, whole_file

RECORD = "sources.json"
HELD_OUT = "held_out"
"""Reason why a pair is left out that shares a side with val or test."""
_SPLIT_NAMES = {TRAIN: "train", VAL: "val", TEST: "test"}


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class SourceRecord(_Record):
    """What became of a source."""

    name: str
    """As in 'sources[0] memory.tmx'."""
    pairs: int
    bad: int
    """Units that could not be read."""
    taken: dict[str, int]
    """Pairs left out, by filter or ``HELD_OUT``."""
    kept: dict[str, int]
    """Pairs kept, by split."""


class CorpusRecord(_Record):
    """Content of sources.json."""

    format: Literal[1] = 1
    source_sha256: str
    stamp: str | None
    """Of the sources; see ``PairSource``."""
    sources: list[SourceRecord]
    given: dict[str, str]
    """By split that is not drawn: its source, as the configuration has it, in JSON."""


@dataclass(frozen=True)
class DroppedPair:
    """A pair that is left out."""

    number: int
    """Its place among all pairs of all sources, from 1."""
    source: str
    reason: str
    """Name of the filter, or ``HELD_OUT``."""
    src: str
    tgt: str


def split_path(directory: Path, split: str) -> ParallelFiles:
    """Return the files of a split of a prepared corpus."""
    return ParallelFiles(directory / f"{split}.src", directory / f"{split}.tgt")


def read_split(directory: Path, split: str, data: CorpusData) -> ParallelText:
    """Read a split of a prepared corpus, each source with its tag.

    Raises:
        CorpusError: it is missing or damaged.
    """
    text = split_path(directory, split).read()
    record = read_record(directory)
    given = {"val": data.val, **data.test}.get(split)
    if given is not None:
        tags = [given.tag] * len(text)
    elif record is None or len(record.sources) != len(data.sources):
        raise CorpusError(f"{directory / RECORD}: missing or damaged; delete {directory}")
    else:
        tags = [
            source.tag
            for source, found in zip(data.sources, record.sources, strict=True)
            for _ in range(found.kept.get(split, 0))
        ]
    return ParallelText(text.src, text.tgt, tags if any(tags) else None)


def read_record(directory: Path) -> CorpusRecord | None:
    """Return the record of a prepared corpus; None: there is none, or it is damaged."""
    return read_checksummed(directory / RECORD, CorpusRecord)


def prepare_corpus(
    data: CorpusData,
    directory: Path,
    progress: PairProgress,
    on_dropped: Callable[[DroppedPair], object] | None = None,
) -> CorpusRecord:
    """Read, filter and split the sources into the new directory ``directory``.

    The sources are read once; memory grows by some 30 bytes a pair.

    Args:
        data: sources, filters and splits.
        directory: must not exist, or be empty; it appears complete, or not at all.
        progress: see ``PairProgress``.
        on_dropped: called with each pair that is left out, in order.

    Raises:
        CorpusError: a source cannot be read, or too few pairs are left.
        MissingExtraError: a format or a filter needs a package that is not installed.
        OSError: the files cannot be written.
    """
    sources = _open_sources(data)
    readers = ConcatenatedSources(tuple(source.reader for source in sources))
    stamp, source_sha256 = readers.stamp(), readers.source_sha256()
    with whole_directory(directory) as temporary:
        found = _read(data, sources, temporary, progress)
        _check_unchanged(readers, stamp, source_sha256)
        records = _write_splits(found, sources, temporary, on_dropped)
        _remove(split_path(temporary, _SPOOL))
        record = CorpusRecord(source_sha256=source_sha256, stamp=stamp, sources=records, given={})
        record = _write_given(data, temporary, record)
        write_checksummed(temporary / RECORD, record)
    return record


def is_prepared(data: CorpusData, directory: Path) -> bool:
    """Return whether ``directory`` has the splits of these settings, of the sources as they are.

    The settings of sources, filters and drawn splits are not compared: the caller knows them.
    """
    record = read_record(directory)
    if record is None:
        return False
    readers = ConcatenatedSources(tuple(source.reader for source in _open_sources(data)))
    stamp = readers.stamp()
    if stamp is not None and stamp == record.stamp:
        return True
    return readers.source_sha256() == record.source_sha256


def update_given_splits(data: CorpusData, directory: Path) -> None:
    """Write the splits that ``data`` names by a source, where the directory has others.

    Raises:
        CorpusError: a source cannot be read.
        OSError: a file cannot be written.
    """
    record = read_record(directory)
    assert record is not None, "the corpus is prepared"
    updated = _write_given(data, directory, record)
    if updated != record:
        write_checksummed(directory / RECORD, updated)


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
            yield from split_path(corpus, self.split).pairs()

    def source_sha256(self) -> str:
        """Return a SHA-256 of the settings and the sources."""
        given = [*([] if self.data.val is None else [self.data.val]), *self.data.test.values()]
        readers = [source.reader for source in _open_sources(self.data)]
        readers += [open_source(each, self.data.src_lang, self.data.tgt_lang) for each in given]
        sums = "".join(reader.source_sha256() for reader in readers)
        settings = self.data.model_dump_json()
        return hashlib.sha256(f"{self.split} {settings} {sums}".encode()).hexdigest()

    def stamp(self) -> str | None:
        """Return None: settings decide too."""
        return None


# --- reading -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Source:
    name: str
    config: SourceConfig
    filters: Sequence[FilterName]
    reader: SourceReader


_SPOOL = "pairs"
"""All pairs of all sources, while they are judged."""


@dataclass(frozen=True)
class _Found:
    """All pairs, and what becomes of each."""

    pairs: ParallelFiles
    sizes: list[int]
    """Pairs of each source."""
    splits: np.ndarray
    """Split of each pair, or ``LEFT_OUT``."""
    reasons: np.ndarray
    """Place in ``names`` of the reason why a pair is left out."""
    names: list[str]


def _open_sources(data: CorpusData) -> list[_Source]:
    return [
        _Source(
            f"sources[{number}] {source.path.name}",
            source,
            data.filters if source.filters is None else source.filters,
            open_source(source, data.src_lang, data.tgt_lang, data.max_bad_units),
        )
        for number, source in enumerate(data.sources)
    ]


def _read(
    data: CorpusData, sources: Sequence[_Source], directory: Path, progress: PairProgress
) -> _Found:
    wanted = {name for source in sources for name in source.filters}
    filters = build_filters(wanted, data.src_lang, data.tgt_lang)
    judge, src_digests, tgt_digests = Judge(filters), Digests(), Digests()
    sizes, spool = [], split_path(directory, _SPOOL)
    with _open_writer(spool) as write:
        for source in sources:
            judge.begin_source(source.filters)
            count = 0
            for src, tgt in progress(source.reader.pairs(), source.name):
                count += 1
                write(src, tgt)
                judge.add(src, tgt)
                if data.split is not None:
                    src_digests.add(src.strip())
                    tgt_digests.add(tgt.strip())
            sizes.append(count)
    reasons = judge.decide()
    kept = reasons == -1
    splits = np.where(kept, TRAIN, LEFT_OUT).astype(np.int8)
    if data.split is not None:
        may_hold_out = np.repeat([source.config.split for source in sources], sizes)
        sides = Sides(src_digests.numbers, tgt_digests.numbers)
        splits = draw_splits(sides, kept, may_hold_out, data.split)
    elif not kept.any():
        raise CorpusError("data.sources: no pair is left after the filters; leave some out")
    reasons[kept & (splits == LEFT_OUT)] = len(filters)
    return _Found(spool, sizes, splits, reasons, [*(each.name for each in filters), HELD_OUT])


def _check_unchanged(readers: PairSource, stamp: str | None, source_sha256: str) -> None:
    now = readers.stamp()
    if (now is None or now != stamp) and readers.source_sha256() != source_sha256:
        raise CorpusError(
            "data.sources: files have changed while they were read; start again when nobody "
            "writes to them"
        )


# --- writing -------------------------------------------------------------------------------------


def _write_splits(
    found: _Found,
    sources: Sequence[_Source],
    directory: Path,
    on_dropped: Callable[[DroppedPair], object] | None,
) -> list[SourceRecord]:
    """Write each pair into the files of its split; return what became of each source."""
    present = [split for split in _SPLIT_NAMES if (found.splits == split).any()]
    with ExitStack() as stack:
        writers = {
            split: stack.enter_context(_open_writer(split_path(directory, _SPLIT_NAMES[split])))
            for split in present
        }
        owners = np.repeat(np.arange(len(sources)), found.sizes)
        rows = zip(found.pairs.pairs(), found.splits, found.reasons, owners, strict=True)
        for number, ((src, tgt), split, reason, owner) in enumerate(rows, start=1):
            if split != LEFT_OUT:
                writers[split](src, tgt)
            elif on_dropped is not None:
                name = found.names[reason]
                on_dropped(DroppedPair(number, sources[int(owner)].name, name, src, tgt))
    return [
        SourceRecord(
            name=source.name,
            pairs=size,
            bad=source.reader.bad.count,
            taken=_count(found.reasons[end - size : end], dict(enumerate(found.names))),
            kept=_count(found.splits[end - size : end], _SPLIT_NAMES),
        )
        for source, size, end in zip(sources, found.sizes, np.cumsum(found.sizes), strict=True)
    ]


def _count(numbers: np.ndarray, names: dict[int, str]) -> dict[str, int]:
    """Return how often each name's number occurs; other numbers are left out."""
    counts = Counter(numbers.tolist())
    return {name: counts[number] for number, name in names.items() if counts[number]}


def _write_given(data: CorpusData, directory: Path, record: CorpusRecord) -> CorpusRecord:
    """Write the splits that have a source of their own; return the record with them."""
    given = {**({"val": data.val} if data.val is not None else {}), **data.test}
    wanted = {
        name: json.dumps(source.model_dump(mode="json"), sort_keys=True)
        for name, source in given.items()
    }
    for name, source in given.items():
        reader = open_source(source, data.src_lang, data.tgt_lang, data.max_bad_units)
        sha256 = reader.source_sha256()
        wanted[name] = hashlib.sha256(f"{wanted[name]}{sha256}".encode()).hexdigest()
        if record.given.get(name) != wanted[name]:
            with _open_writer(split_path(directory, name)) as write:
                for src, tgt in reader.pairs():
                    write(src, tgt)
    return record.model_copy(update={"given": wanted})


@contextmanager
def _open_writer(files: ParallelFiles) -> Iterator[Callable[[str, str], None]]:
    """Yield a function that writes a pair; both files appear when the block succeeds."""
    with ExitStack() as stack:
        src, tgt = (stack.enter_context(_open_side(path)) for path in (files.src, files.tgt))

        def write(src_line: str, tgt_line: str) -> None:
            src.write(f"{src_line}\n")
            tgt.write(f"{tgt_line}\n")

        yield write


@contextmanager
def _open_side(path: Path) -> Iterator[TextIO]:
    with whole_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        yield file


def _remove(files: ParallelFiles) -> None:
    files.src.unlink()
    files.tgt.unlink()
