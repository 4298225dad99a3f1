"""A prepared corpus: the files of its splits, and a record of its sources.

It is an ``Artifact`` with two files per split, e.g. train.src and train.tgt, and sources.json.
A split's pairs are in the order of the sources. ``preparing.py`` writes the corpus. A split with a
source of its own is not part of the corpus; that source is read directly.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from transformer_cli.base.artifact import Artifact, Record
from transformer_cli.base.errors import CorpusError
from transformer_cli.base.writing import whole_file
from transformer_cli.data.corpus import ParallelFiles, ParallelText
from transformer_cli.extensions.corpora.opening import SourceReader, open_source
from transformer_cli.extensions.corpora.settings import CorpusData, SourceConfig
from transformer_cli.extensions.corpora.tagged_line import TaggedLine

RECORD = "sources.json"


class SourceRecord(BaseModel):
    """How many pairs of a source were kept, and how many were left out and why."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str  # the source's name, e.g. 'sources[0] memory.tmx'
    pairs: int
    bad: int  # the number of lines, rows or entries that could not be read
    first_bad: str | None  # the error message for the first of them
    removed: dict[str, int]  # pairs left out, keyed by reason: a filter's name or ``HELD_OUT``
    kept: dict[str, int]  # the number of pairs kept, keyed by split


class CorpusRecord(Record):
    """The content of sources.json: how many pairs of each source were kept, and a checksum."""

    mtime_key: str | None  # what ``PairSource.mtime_key`` returned when the sources were read
    sources: list[SourceRecord]


def corpus_artifact(directory: Path) -> Artifact[CorpusRecord]:
    """Return the ``Artifact`` that reads, writes and checks a prepared corpus."""
    return Artifact(directory, CorpusRecord, RECORD)


def read_corpus_record(directory: Path) -> CorpusRecord | None:
    """Return the record of a prepared corpus; None if it is missing or damaged."""
    return corpus_artifact(directory).read()


def find_damage(
    directory: Path, record: CorpusRecord, splits: Collection[str] | None = None
) -> str | None:
    """Return a message about the first missing or changed file of ``splits`` (None: all splits)."""
    artifact = corpus_artifact(directory)
    files = {
        name: file
        for name, file in record.files.items()
        if splits is None or name.partition(".")[0] in splits
    }
    # The training text may be large, and training compares its checksum anyway.
    held_out = {name: file for name, file in files.items() if not name.startswith("train.")}
    asked, read = (record.model_copy(update={"files": each}) for each in (files, held_out))
    return artifact.find_damage(asked) or artifact.find_damage(read, compares_sums=True)


def split_path(directory: Path, split: str) -> ParallelFiles:
    """Return the paths of a split's two files in a prepared corpus."""
    return ParallelFiles(directory / f"{split}.src", directory / f"{split}.tgt")


def read_split(directory: Path, split: str, data: CorpusData) -> ParallelText:
    """Read a split, with tags on source lines; raise CorpusError if it is missing or damaged."""
    text = split_path(directory, split).read()
    record = read_corpus_record(directory)
    if record is None or len(record.sources) != len(data.sources):
        raise CorpusError(f"{directory / RECORD}: missing or damaged; delete {directory}")
    tags = [
        source.tag
        for source, made in zip(data.sources, record.sources, strict=True)
        for _ in range(made.kept.get(split, 0))
    ]
    return ParallelText(list(map(TaggedLine, text.src, tags)), text.tgt) if any(tags) else text


def read_given(source: SourceConfig, data: CorpusData) -> ParallelText:
    """Read a split from its own source, and put that source's tag on the source lines."""
    pairs = list(readable_pairs(open_configured(source, data).pairs()))
    sources = [TaggedLine(src, source.tag) if source.tag else src for src, _ in pairs]
    return ParallelText(sources, [tgt for _, tgt in pairs])


def open_configured(source: SourceConfig, data: CorpusData) -> SourceReader:
    """Return a reader for one of the sources in ``data``."""
    return open_source(source, data.src_lang, data.tgt_lang, data.max_bad_units)


def readable_pairs(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Drop byte order marks and final carriage returns, as ``decode_lines`` does for files."""
    for src, tgt in pairs:
        yield src.lstrip("\ufeff").rstrip("\r"), tgt.lstrip("\ufeff").rstrip("\r")


@contextmanager
def open_writer(files: ParallelFiles) -> Iterator[Callable[[str, str], None]]:
    """Yield a function that writes a pair; both files appear when the ``with`` block succeeds."""
    with ExitStack() as stack:
        made = [stack.enter_context(whole_file(path)) for path in files.paths]
        src, tgt = (
            stack.enter_context(path.open("w", encoding="utf-8", newline="")) for path in made
        )

        def write(src_line: str, tgt_line: str) -> None:
            src.write(f"{src_line}\n")
            tgt.write(f"{tgt_line}\n")

        yield write


def find_text_files(data: CorpusData) -> tuple[dict[str, ParallelFiles], dict[str, ParallelFiles]]:
    """Return the aligned text files among the training sources, and among splits' own sources."""
    training = {f"data.sources[{n}]": source for n, source in enumerate(data.sources)}
    return _text_files(training), _text_files(data.given_splits)


def _text_files(sources: dict[str, SourceConfig]) -> dict[str, ParallelFiles]:
    return {
        name: ParallelFiles(source.src, source.tgt)
        for name, source in sources.items()
        if source.src is not None and source.tgt is not None
    }
