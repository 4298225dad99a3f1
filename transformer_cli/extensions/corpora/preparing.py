"""Prepare or clean a corpus: read, filter and split its sources, and write aligned text.

The main process reads the sources part by part and stores their text in two temporary files, while
an executor's tasks examine the pairs of each part. Then deciding.py chooses a split for each pair
or rejects it. The result depends neither on the size of the parts nor on where the tasks run.
Cleaning also writes the rejected pairs.
"""

import tempfile
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, ExitStack, nullcontext
from itertools import compress, islice
from pathlib import Path

import numpy as np

from transformer_cli.base.artifact import sum_json
from transformer_cli.base.errors import CorpusError
from transformer_cli.base.messages import show_progress
from transformer_cli.base.workers import SerialExecutor, find_executor
from transformer_cli.base.writing import remove_leftovers
from transformer_cli.extensions.checks.rules import FILTER_NAMES, Filter, FilterSettings
from transformer_cli.extensions.corpora import deciding, prepared
from transformer_cli.extensions.corpora.opening import (
    ConcatenatedSources,
    SourceReader,
    count_bytes,
)
from transformer_cli.extensions.corpora.settings import CorpusData, SplitConfig
from transformer_cli.extensions.corpora.units import BadUnits

HELD_OUT = "held_out"  # the reason to leave out a pair that shares a side with a val or test pair
DROPPED = "dropped.tsv"
PART_PAIRS = 1 << 14  # the number of pairs per task
_MOST_AHEAD = 64  # the maximum number of tasks that may wait for worker processes
MIN_BYTES_FOR_WORKERS = 1 << 24  # less text is not worth the second that starting workers takes


def prepare_corpus(
    data: CorpusData, directory: Path, executor: Executor | None = None
) -> prepared.CorpusRecord:
    """Write a prepared corpus into ``directory``, which must be new or empty.

    Filters run as tasks of ``executor`` or, if it is None, in one process per core. If there is
    little text, they run in this process.

    Raise CorpusError if a source cannot be read or no pair is left, ConfigError if too few are left
    for ``data.split``, MissingExtraError if a format or a filter needs a package that is not
    installed, WorkerError if a worker died, and OSError if the files cannot be written.
    """
    return prepared.corpus_artifact(directory).make(lambda made: write_corpus(data, made, executor))


def is_prepared(data: CorpusData, directory: Path) -> bool:
    """Return whether the splits in ``directory`` were made from the current sources.

    The settings of sources, filters and drawn splits are not compared; the caller checks them.
    """
    record = prepared.read_corpus_record(directory)
    if record is None:
        return False
    text = ConcatenatedSources(tuple(_open_sources(data).values()))
    mtime_key = text.mtime_key()
    if mtime_key is not None and mtime_key == record.mtime_key:
        return True
    return record.made_of == {"sources": text.source_sha256()}


def sum_unprepared(data: CorpusData, split: str) -> str:
    """Return a SHA-256 of a split's name, the settings and the sources."""
    readers = (*_open_sources(data).values(), *_open_given(data))
    sums = "".join(reader.source_sha256() for reader in readers)
    return sum_json([split, data.fingerprint(), sums])


def _open_sources(data: CorpusData) -> dict[str, SourceReader]:
    """Return the readers of ``data.sources``, keyed by their names in records and messages."""
    return {
        f"sources[{number}] {source.name}": prepared.open_configured(source, data)
        for number, source in enumerate(data.sources)
    }


def _open_given(data: CorpusData) -> list[SourceReader]:
    return [prepared.open_configured(source, data) for source in data.given_splits.values()]


def write_corpus(
    data: CorpusData,
    directory: Path,
    executor: Executor | None = None,
    writes_dropped: bool = False,
) -> prepared.CorpusRecord:
    """Write a corpus into an existing directory; see ``prepare_corpus``.

    If ``writes_dropped`` is true, append the pairs that are left out to the file ``DROPPED``.
    """
    sources = _open_sources(data)
    text = ConcatenatedSources(tuple(sources.values()))
    mtime_key, source_sha256 = text.mtime_key(), text.source_sha256()
    # Read the first pair of each source, to find a wrong name now and not hours later.
    for reader in (*sources.values(), *_open_given(data)):
        next(reader.pairs(), None)
    filters = [data.filters if each.filters is None else each.filters for each in data.sources]
    filtering = deciding.Filtering(
        names=tuple(sorted(set[str]().union(*filters))),
        settings=FilterSettings.of(data),
        active=tuple(frozenset({"blank", *names}) for names in filters),
        with_sides=data.split is not None,
    )
    with tempfile.TemporaryDirectory(dir=directory) as work:
        spooled = [Path(work, side) for side in ("src", "tgt")]
        with _choose_executor(executor, sources.values(), directory) as tasks:
            columns, sizes = _read(filtering, sources, spooled, tasks)
        now = text.mtime_key()
        if (now is None or now != mtime_key) and text.source_sha256() != source_sha256:
            raise CorpusError(
                "data.sources: files changed while they were read; start again when nothing "
                "writes to them"
            )
        source_of = np.repeat(np.arange(len(sources), dtype=np.int32), sizes)
        may_hold_out = np.array([bool(source.split) for source in data.sources])[source_of]
        fates = _decide(filtering, columns, source_of, data.split, may_hold_out)
        filter_names = (filter_.name for filter_ in filtering.filters)
        names = [*deciding.SPLITS.values(), *filter_names, HELD_OUT]
        _write_splits(spooled, fates, directory)
        if writes_dropped:
            source_names = list(sources)
            of_pairs = (source_names[number] for number in source_of.tolist())
            append_dropped(spooled, fates, names, of_pairs, directory / DROPPED)
    of_sources = zip(sources.items(), np.split(fates, np.cumsum(sizes)[:-1]), strict=True)
    records = [_record(name, reader.bad, names, own) for (name, reader), own in of_sources]
    return prepared.CorpusRecord(
        made_of={"sources": source_sha256}, mtime_key=mtime_key, sources=records
    )


def _choose_executor(
    given: Executor | None, readers: Iterable[SourceReader], directory: Path
) -> AbstractContextManager[Executor]:
    """Return an executor that suits the size of the text; see ``prepare_corpus``."""
    if sum(map(count_bytes, readers)) < MIN_BYTES_FOR_WORKERS:
        return SerialExecutor()
    return find_executor((), directory)() if given is None else nullcontext(given)


def _read(
    filtering: deciding.Filtering,
    sources: Mapping[str, SourceReader],
    spooled: Sequence[Path],
    tasks: Executor,
) -> tuple[list[np.ndarray], list[int]]:
    """Write all pairs to the temporary files ``spooled``, and run ``judge`` on them in tasks.

    Returns the arrays from ``judge``, joined over all pairs, and each source's number of pairs.
    """
    done: list[list[np.ndarray]] = []
    judged: deque[Future[list[np.ndarray]]] = deque()
    sizes = []
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("wb")) for path in spooled]
        for number, (name, reader) in enumerate(sources.items()):
            pairs = prepared.readable_pairs(show_progress(reader.pairs(), name, " pairs"))
            sizes.append(0)
            while part := list(islice(pairs, PART_PAIRS)):
                sizes[-1] += len(part)
                for file, lines in zip(files, zip(*part, strict=True), strict=True):
                    file.write("".join([f"{line}\n" for line in lines]).encode())
                judged.append(tasks.submit(deciding.judge, filtering, number, part))
                if len(judged) > _MOST_AHEAD:  # keep reading from running ahead of the tasks
                    done.append(judged.popleft().result())
    done += (each.result() for each in judged)
    return [np.concatenate(parts) for parts in zip(*done, strict=True)], sizes


# --- deciding -------------------------------------------------------------------------------------


def _decide(
    filtering: deciding.Filtering,
    columns: Sequence[np.ndarray],
    source_of: np.ndarray,
    split: SplitConfig | None,
    may_hold_out: np.ndarray,
) -> np.ndarray:
    """Return what becomes of each pair: its index (int8) in [*splits, *filters, ``HELD_OUT``]."""
    reasons = deciding.decide(filtering, columns, source_of)
    filters = filtering.filters
    kept = reasons < 0
    if not kept.any():
        raise _nothing_left(np.bincount(reasons, minlength=len(filters)), filters)
    fates = np.where(kept, deciding.TRAIN, len(deciding.SPLITS) + reasons).astype(np.int8)
    if split is None:
        return fates
    sides = [digests[kept] for digests in columns[len(filters) :]]
    held_out, is_left_out = deciding.draw(split, may_hold_out[kept], sides)
    own = fates[kept]
    own[is_left_out] = len(deciding.SPLITS) + len(filters)
    own[held_out[: split.test]] = deciding.TEST
    own[held_out[split.test :]] = deciding.VAL
    fates[kept] = own
    deciding.check_enough(split, len(own), len(held_out), int((own == deciding.TRAIN).sum()))
    return fates


def _nothing_left(rejected: np.ndarray, filters: Sequence[Filter]) -> CorpusError:
    worst, most = filters[int(rejected.argmax())], rejected.max()
    remedy = "" if worst.name == "blank" else "leave that filter out, or "
    return CorpusError(
        f"data.sources: no pair is left after the filters; of {rejected.sum():,}, {most:,} were "
        f"rejected by '{worst.name}' ({worst.summary}); {remedy}correct the text"
    )


# --- writing --------------------------------------------------------------------------------------


def _write_splits(spooled: Sequence[Path], fates: np.ndarray, directory: Path) -> None:
    """Write the files of each split that has pairs, keeping the pairs in order."""
    for path in spooled:
        for fate, split in deciding.SPLITS.items():
            if (is_own := fates == fate).any():
                target = directory / f"{split}.{path.name}"
                with path.open("rb") as text, target.open("wb") as file:
                    file.writelines(compress(text, is_own.tobytes()))


def append_dropped(
    spooled: Sequence[Path],
    fates: np.ndarray,
    names: Sequence[str],
    of_pairs: Iterable[str],
    path: Path,
) -> None:
    """Append the pairs that are left out to the table at ``path``.

    ``fates`` has each pair's index in ``names``, which lists splits and reasons; ``of_pairs`` has
    the name of each pair's data source. Pairs are numbered from 1 across all sources.
    """
    with ExitStack() as stack:
        sides = [stack.enter_context(each.open("rb")) for each in spooled]
        file = stack.enter_context(path.open("ab"))
        rows = zip(fates.tolist(), of_pairs, *sides, strict=True)
        for number, (fate, source, *lines) in enumerate(rows, start=1):
            if fate >= len(deciding.SPLITS):
                cells = (str(number), source, names[fate], *(line[:-1].decode() for line in lines))
                file.write(("\t".join(cell.replace("\t", " ") for cell in cells) + "\n").encode())


def _record(
    name: str, bad: BadUnits, names: Sequence[str], fates: np.ndarray
) -> prepared.SourceRecord:
    counts = np.bincount(fates, minlength=len(names)).tolist()
    removed = {fate: count for fate, count in zip(names, counts, strict=True) if count}
    kept = {split: removed.pop(split) for split in deciding.SPLITS.values() if split in removed}
    return prepared.SourceRecord(
        name=name, pairs=len(fates), bad=bad.count, first_bad=bad.why, removed=removed, kept=kept
    )


# --- cleaning -------------------------------------------------------------------------------------


def clean_corpus(
    data: CorpusData, directory: Path, executor: Executor | None = None
) -> prepared.CorpusRecord:
    """Write the kept and the rejected pairs into ``directory``; see ``prepare_corpus``."""
    remove_leftovers(directory.absolute().parent, others=[directory.name])

    def write(made: Path) -> prepared.CorpusRecord:
        head = f"pair\tsource\tfilter\t{data.src_lang}\t{data.tgt_lang}\n"
        (made / DROPPED).write_text(head, encoding="utf-8", newline="")
        record = write_corpus(data, made, executor, writes_dropped=True)
        # Drop the key, so that the same text always gives the same bytes.
        return record.model_copy(update={"mtime_key": None})

    return prepared.corpus_artifact(directory).make(write)


def list_reasons(data: CorpusData) -> list[str]:
    """Return all possible reasons for leaving out a pair, in the order in which they apply."""
    used = {"blank", *data.filters}.union(*(source.filters or () for source in data.sources))
    held_out = [HELD_OUT] if data.split is not None else []
    return [name for name in FILTER_NAMES if name in used] + held_out
