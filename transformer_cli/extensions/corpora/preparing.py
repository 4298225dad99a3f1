"""Prepare a corpus, or clean it: read, filter and split its sources, and write aligned text.

The sources are read into parts here, while tasks for an executor look at the pairs of each part
that is written. What becomes of each pair is decided here (``deciding.py``), and each is written
where it belongs (``sorting.py``). What comes out depends neither on how the text is cut nor on
where the tasks run.

Cleaning writes what is left out as well.
"""

import shutil
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice, repeat
from pathlib import Path

import numpy as np

from transformer_cli.base.artifact import sum_json
from transformer_cli.base.errors import CorpusError, TransformerCliError
from transformer_cli.base.messages import show_progress
from transformer_cli.base.workers import SerialExecutor, find_executor
from transformer_cli.base.writing import remove_leftovers
from transformer_cli.data.corpus import ConcatenatedSources
from transformer_cli.extensions.checks.filter_names import FILTER_NAMES
from transformer_cli.extensions.checks.rules import Filter
from transformer_cli.extensions.corpora import prepared
from transformer_cli.extensions.corpora.deciding import (
    SIDES,
    SPLITS,
    TEST,
    TRAIN,
    VAL,
    Filtering,
    Part,
    check_enough,
    decide,
    draw,
    judge_part,
    load_column,
    of_sources,
    write_part,
)
from transformer_cli.extensions.corpora.opening import SourceReader, count_bytes
from transformer_cli.extensions.corpora.settings import (
    CorpusData,
    SourceConfig,
    SplitConfig,
)
from transformer_cli.extensions.corpora.sorting import (
    DROPPED,
    HELD_OUT,
    append_dropped,
    append_splits,
)

PART_PAIRS = 1 << 17
"""Pairs that are decided about by one task."""
_MOST_AHEAD = 64
"""Parts that may wait for workers."""
MIN_BYTES_FOR_WORKERS = 1 << 24
"""Text that is worth the second that it takes to start workers."""
_DELETIONS = 10
_MOST_COMPARED_BYTES = 1 << 28  # packed or not: a run that goes on waits for seconds at most


def prepare_corpus(
    data: CorpusData, directory: Path, executor: Executor | None = None
) -> prepared.CorpusRecord:
    """Write a corpus into ``directory``, which must not exist, or be empty.

    The sources are read once, by tasks of ``executor``: of one that has a process a core if none is
    given, and of none if there is little to read.

    Raises:
        CorpusError: a source cannot be read, or no pair is left.
        ConfigError: too few pairs are left for ``data.split``.
        MissingExtraError: a format or a filter needs a package that is not installed.
        WorkerError: a worker has died.
        OSError: the files cannot be written.
    """
    artifact = prepared.corpus_artifact(directory)
    return artifact.make(lambda made: write_corpus(data, made, executor))


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


def has_changed(data: CorpusData, directory: Path) -> bool:
    """Return whether the sources are here, and are not what ``directory`` records.

    What would have to be fetched, or is large, is not read for that.
    """
    is_recorded = prepared.read_corpus_record(directory) is not None
    if not is_recorded or not all(source.is_local for source in data.sources):
        return False
    try:
        size = sum(count_bytes(source.reader) for source in _open_sources(data))
        return size <= _MOST_COMPARED_BYTES and not is_prepared(data, directory)
    except (TransformerCliError, OSError):  # a source is gone, or its package
        return False


@dataclass(frozen=True)
class UnpreparedSplit:
    """A split of a corpus that is known by its settings and sources, without preparing it."""

    data: CorpusData
    split: str

    def source_sha256(self) -> str:
        """Return a SHA-256 of the settings and the sources."""
        sums = "".join(reader.source_sha256() for reader in _open_all(self.data))
        return sum_json([self.split, self.data.fingerprint(), sums])


@dataclass(frozen=True)
class _Source:
    name: str
    config: SourceConfig
    filters: Sequence[str]
    reader: SourceReader


def _open_sources(data: CorpusData) -> list[_Source]:
    return [
        _Source(
            f"sources[{number}] {source.name}",
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


def write_corpus(
    data: CorpusData,
    directory: Path,
    executor: Executor | None = None,
    writes_dropped: bool = False,
) -> prepared.CorpusRecord:
    """Write a corpus into a directory that is there; see ``prepare_corpus``.

    If it ``writes_dropped``, the pairs that are left out are appended to ``DROPPED``.
    """
    sources = _open_sources(data)
    text = _concatenate(sources)
    mtime_key, source_sha256 = text.mtime_key(), text.source_sha256()
    # The first pair of each, so that a wrong name is not found hours later.
    for reader in _open_all(data):
        next(reader.pairs(), None)
    with _open_executor(executor, sources, directory) as tasks, _open_work(directory) as work:
        filtering = Filtering(
            names=tuple(sorted({name for source in sources for name in source.filters})),
            languages=(data.src_lang, data.tgt_lang),
            active=tuple(frozenset({"blank", *source.filters}) for source in sources),
            with_sides=data.split is not None,
        )
        parts = _read(filtering, sources, work, tasks)
        now = text.mtime_key()
        if (now is None or now != mtime_key) and text.source_sha256() != source_sha256:
            raise CorpusError(
                "data.sources: files have changed while they were read; start again when nobody "
                "writes to them"
            )
        fates = _decide(filtering, sources, parts, data.split)
        names = [*SPLITS.values(), *(filter_.name for filter_ in filtering.filters), HELD_OUT]
        counts = _write(sources, parts, fates, names, directory, writes_dropped)
    return prepared.CorpusRecord(
        made_of={"sources": source_sha256},
        mtime_key=mtime_key,
        sources=list(map(_record, sources, repeat(names), counts)),
    )


@contextmanager
def _open_executor(
    given: Executor | None, sources: Sequence[_Source], directory: Path
) -> Iterator[Executor]:
    """Yield the executor for text of this size; see ``prepare_corpus``."""
    if sum(count_bytes(source.reader) for source in sources) < MIN_BYTES_FOR_WORKERS:
        yield SerialExecutor()
    elif given is not None:
        yield given
    else:
        with find_executor((), directory)() as executor:
            yield executor


@contextmanager
def _open_work(directory: Path) -> Iterator[Path]:
    """Yield a directory for what tasks leave for others; it is deleted at the end."""
    work = directory.absolute() / "work"
    work.mkdir()
    yield work
    # A worker that was cut off may go on for a moment, and write a file that others have read.
    for _ in range(_DELETIONS):
        shutil.rmtree(work, ignore_errors=True)
    if work.exists():
        shutil.rmtree(work)


# --- reading --------------------------------------------------------------------------------------


def _read(
    filtering: Filtering,
    sources: Sequence[_Source],
    work: Path,
    tasks: Executor,
) -> list[Part]:
    """Write all pairs into parts, and have them judged."""
    parts: list[Part] = []
    judged: deque[Future[None]] = deque()
    first = 0
    for number, source in enumerate(sources):
        pairs = prepared.readable_pairs(show_progress(source.reader.pairs(), source.name, " pairs"))
        for pair in pairs:
            some = chain([pair], islice(pairs, PART_PAIRS - 1))
            parts.append(write_part(work / str(len(parts)), number, first, some))
            first += parts[-1].count
            judged.append(tasks.submit(judge_part, filtering, parts[-1]))
            if len(judged) > _MOST_AHEAD:  # so that progress is that of the slower work
                judged.popleft().result()
    for each in judged:
        each.result()
    return parts


# --- deciding -------------------------------------------------------------------------------------


def _decide(
    filtering: Filtering,
    sources: Sequence[_Source],
    parts: Sequence[Part],
    split: SplitConfig | None,
) -> np.ndarray:
    """Return what becomes of each pair, int8: a split's number, or more."""
    reasons = decide(filtering, parts)
    filters = filtering.filters
    kept = reasons < 0
    if not kept.any():
        raise _nothing_left(np.bincount(reasons, minlength=len(filters)), filters)
    fates = np.where(kept, TRAIN, len(SPLITS) + reasons).astype(np.int8)
    if split is None:
        return fates
    may_hold_out = of_sources([bool(source.config.split) for source in sources], parts)[kept]
    sides = [load_column(parts, side, np.uint64)[kept] for side in SIDES]
    held_out, is_left_out = draw(split, may_hold_out, sides)
    own = fates[kept]
    own[is_left_out] = len(SPLITS) + len(filters)
    own[held_out[: split.test]] = TEST
    own[held_out[split.test :]] = VAL
    fates[kept] = own
    check_enough(split, len(own), len(held_out), int((fates == TRAIN).sum()))
    return fates


def _cut(column: np.ndarray, parts: Sequence[Part]) -> list[np.ndarray]:
    """Return what belongs to each part."""
    return [column[part.first : part.first + part.count] for part in parts]


def _nothing_left(rejected: np.ndarray, filters: Sequence[Filter]) -> CorpusError:
    worst, most = filters[int(rejected.argmax())], rejected.max()
    remedy = (
        "correct the text"
        if worst.name == "blank"
        else "leave that filter out, or correct the text"
    )
    return CorpusError(
        f"data.sources: no pair is left after the filters; of {rejected.sum():,}, {most:,} are "
        f"rejected by '{worst.name}' ({worst.summary}); {remedy}"
    )


# --- writing --------------------------------------------------------------------------------------


def _write(
    sources: Sequence[_Source],
    parts: Sequence[Part],
    fates: np.ndarray,
    names: Sequence[str],
    directory: Path,
    writes_dropped: bool,
) -> np.ndarray:
    """Write each pair where it belongs; return for each source how many have which fate."""
    counts = np.zeros((len(sources), len(names)), np.int64)
    for part, own in zip(parts, _cut(fates, parts), strict=True):
        counts[part.source] += np.bincount(own, minlength=len(names))
        append_splits(part, own, directory)
        if writes_dropped:
            append_dropped(part, own, names, sources[part.source].name, directory)
        for side in SIDES:
            part.path(f"{side}.txt").unlink()
    return counts


def _record(source: _Source, fates: Sequence[str], counts: np.ndarray) -> prepared.SourceRecord:
    by_fate = {name: number for name, number in zip(fates, counts.tolist(), strict=True) if number}
    return prepared.SourceRecord(
        name=source.name,
        pairs=int(counts.sum()),
        bad=source.reader.bad.count,
        first_bad=source.reader.bad.why,
        removed={name: by_fate[name] for name in by_fate if name not in SPLITS.values()},
        kept={name: by_fate[name] for name in by_fate if name in SPLITS.values()},
    )


# --- cleaning -------------------------------------------------------------------------------------


def clean_corpus(
    data: CorpusData, directory: Path, executor: Executor | None = None
) -> prepared.CorpusRecord:
    """Write the pairs that are kept and those that are not into the new directory ``directory``.

    See ``prepare_corpus``.
    """
    remove_leftovers(directory.absolute().parent, others=[directory.name])

    def write(made: Path) -> prepared.CorpusRecord:
        head = f"pair\tsource\tfilter\t{data.src_lang}\t{data.tgt_lang}\n"
        (made / DROPPED).write_text(head, encoding="utf-8", newline="")
        record = write_corpus(data, made, executor, writes_dropped=True)
        # The same text gives the same bytes, whenever it was written.
        return record.model_copy(update={"mtime_key": None})

    return prepared.corpus_artifact(directory).make(write)


def list_reasons(data: CorpusData) -> list[str]:
    """Return why pairs may be left out, in the order in which that is decided."""
    used = {"blank", *data.filters}.union(*(source.filters or () for source in data.sources))
    held_out = [HELD_OUT] if data.split is not None else []
    return [name for name in FILTER_NAMES if name in used] + held_out
