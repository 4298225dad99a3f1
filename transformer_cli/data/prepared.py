"""A prepared corpus: the files of its splits, and the record of what became of its sources.

``preparing.py`` writes it.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from transformer_cli.artifact import read_record
from transformer_cli.config.data_schema import CorpusData
from transformer_cli.data.corpus import ParallelFiles, ParallelText
from transformer_cli.errors import CorpusError
from transformer_cli.files import sha256

RECORD = "sources.json"


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class SourceRecord(_Record):
    """What became of a source."""

    name: str
    """As in 'sources[0] memory.tmx'."""
    pairs: int
    bad: int
    """Units that could not be read."""
    first_bad: str | None = None
    """Why the first of them could not."""
    taken: dict[str, int]
    """Pairs left out, by filter or ``HELD_OUT``."""
    kept: dict[str, int]
    """Pairs kept, by split."""


class ExplicitSplit(_Record):
    """Where a split is from that is not drawn."""

    name: str
    """As in 'val dev.tmx'."""
    settings: str
    """Its source, as the configuration has it, in JSON."""
    source_sha256: str
    pairs: int
    bad: int
    first_bad: str | None = None


class FileRecord(_Record):
    """A file as it was written."""

    size: int
    sha256: str


class CorpusRecord(_Record):
    """Content of sources.json."""

    format: Literal[1] = 1
    source_sha256: str
    stamp: str | None
    """Of the sources; see ``PairSource``."""
    sources: list[SourceRecord]
    given: dict[str, ExplicitSplit]
    """By split that is not drawn."""
    files: dict[str, FileRecord]
    """By name: the text of all splits."""

    @property
    def drawn(self) -> set[str]:
        """Splits that are made of the sources: ``train``, and those that are drawn."""
        return {split for source in self.sources for split in source.kept}


def split_path(directory: Path, split: str) -> ParallelFiles:
    """Return the files of a split of a prepared corpus."""
    return ParallelFiles(directory / f"{split}.src", directory / f"{split}.tgt")


def read_split(directory: Path, split: str, data: CorpusData) -> ParallelText:
    """Read a split of a prepared corpus, each source with its tag.

    Raises:
        CorpusError: it is missing or damaged.
    """
    text = split_path(directory, split).read()
    record = read_corpus_record(directory)
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


def read_corpus_record(directory: Path) -> CorpusRecord | None:
    """Return the record of a prepared corpus; None: there is none, or it is damaged."""
    return read_record(directory / RECORD, CorpusRecord)


def record_files(files: ParallelFiles) -> dict[str, FileRecord]:
    """Return the record of both files of a split."""
    return {
        path.name: FileRecord(size=path.stat().st_size, sha256=sha256(path))
        for path in (files.src, files.tgt)
    }


def find_damage(
    directory: Path, record: CorpusRecord, splits: Collection[str] | None = None
) -> str | None:
    """Return a message about the first file that is not as it was written, or None.

    Args:
        directory: of the corpus.
        record: of the corpus.
        splits: whose files are looked at; None: all.
    """
    written = (directory / RECORD).stat().st_mtime_ns
    for name, file in record.files.items():
        path = directory / name
        if splits is not None and path.stem not in splits:
            continue
        if not path.is_file():
            return f"{path}: is missing"
        stat = path.stat()
        # The record is written last. What is older than that is not read again.
        is_new = stat.st_mtime_ns > written
        if stat.st_size != file.size or (is_new and sha256(path) != file.sha256):
            return f"{path}: has changed since it was written"
    return None


def lost_text_error(damage: str) -> CorpusError:
    """Return the error of a run with checkpoints whose text cannot be made again.

    Args:
        damage: as ``find_damage`` returns it.
    """
    return CorpusError(
        f"{damage}, and what it was made of is gone or has changed, so it cannot be written again; "
        "restore the file, or start anew with --overwrite"
    )
