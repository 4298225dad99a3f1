"""A prepared corpus: the files of its splits, and the record of what became of its sources.

It is an artifact with two files a split, ``train.src`` and ``train.tgt`` say, and sources.json. The
pairs of a drawn split are in the order of the sources. ``preparing.py`` makes it; a split with a
source of its own is written here, again when its source has changed.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from transformer_cli.base.artifact import Artifact, Record, record_files
from transformer_cli.base.errors import CorpusError
from transformer_cli.base.writing import whole_file
from transformer_cli.data.corpus import ParallelFiles, ParallelText
from transformer_cli.extensions.corpora.opening import SourceReader, open_source
from transformer_cli.extensions.corpora.settings import CorpusData, SourceConfig
from transformer_cli.extensions.corpora.tagged_line import TaggedLine

RECORD = "sources.json"


class _ReadSource(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    """As in 'sources[0] memory.tmx' or 'val dev.tmx'."""
    pairs: int
    bad: int
    """Units that could not be read."""
    first_bad: str | None
    """Why the first of them could not."""


class SourceRecord(_ReadSource):
    """What became of a source."""

    removed: dict[str, int]
    """Pairs left out, by filter or ``HELD_OUT``."""
    kept: dict[str, int]
    """Pairs kept, by split."""


class ExplicitSplit(_ReadSource):
    """Where a split is from that is not drawn."""

    settings: str
    """Its source, as the configuration has it, in JSON."""
    source_sha256: str


class CorpusRecord(Record):
    """Content of sources.json; made of the sources' SHA-256."""

    mtime_key: str | None
    """Of the sources; see ``PairSource``."""
    sources: list[SourceRecord]
    given: dict[str, ExplicitSplit]
    """By split that is not drawn."""

    @property
    def drawn(self) -> set[str]:
        """Splits that are made of the sources: ``train``, and those that are drawn."""
        return {split for source in self.sources for split in source.kept}


def corpus_artifact(directory: Path) -> Artifact[CorpusRecord]:
    """Return the artifact that a prepared corpus is."""
    return Artifact(directory, CorpusRecord, RECORD)


def read_corpus_record(directory: Path) -> CorpusRecord | None:
    """Return the record of a prepared corpus; None: there is none, or it is damaged."""
    return corpus_artifact(directory).read()


def find_damage(
    directory: Path, record: CorpusRecord, splits: Collection[str] | None = None
) -> str | None:
    """Return a message about the first file, of all or these splits, that is not as written."""
    names = None if splits is None else _file_names(splits)
    return corpus_artifact(directory).find_damage(record, names)


def _file_names(splits: Collection[str]) -> set[str]:
    return {f"{split}.{side}" for split in splits for side in ("src", "tgt")}


def lost_text_error(damage: str) -> CorpusError:
    """Return the error of a run with checkpoints whose text cannot be made again."""
    return CorpusError(
        f"{damage}, and what it was made of is gone or has changed, so it cannot be written again; "
        "restore the file, or start again with --overwrite"
    )


def split_path(directory: Path, split: str) -> ParallelFiles:
    """Return the files of a split of a prepared corpus."""
    return ParallelFiles(directory / f"{split}.src", directory / f"{split}.tgt")


def read_split(directory: Path, split: str, data: CorpusData) -> ParallelText:
    """Read a split, each source a ``TaggedLine``; raise CorpusError if it is missing or damaged."""
    text = split_path(directory, split).read()
    record = read_corpus_record(directory)
    given = given_sources(data).get(split)
    if given is not None:
        tags = [given.tag] * len(text)
    elif record is None or len(record.sources) != len(data.sources):
        raise CorpusError(f"{directory / RECORD}: missing or damaged; delete {directory}")
    else:
        tags = [
            source.tag
            for source, made in zip(data.sources, record.sources, strict=True)
            for _ in range(made.kept.get(split, 0))
        ]
    return ParallelText(list(map(TaggedLine, text.src, tags)), text.tgt) if any(tags) else text


def open_configured(source: SourceConfig, data: CorpusData) -> SourceReader:
    """Return the reader of one of the sources that ``data`` names."""
    return open_source(source, data.src_lang, data.tgt_lang, data.max_bad_units)


def readable_pairs(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield pairs without what ``decode_lines`` would drop from their files."""
    for src, tgt in pairs:
        yield src.lstrip("\ufeff").rstrip("\r"), tgt.lstrip("\ufeff").rstrip("\r")


@contextmanager
def open_writer(files: ParallelFiles) -> Iterator[Callable[[str, str], None]]:
    """Yield a function that writes a pair; both files appear when the block succeeds."""
    with ExitStack() as stack:
        made = [stack.enter_context(whole_file(path)) for path in (files.src, files.tgt)]
        src, tgt = (
            stack.enter_context(path.open("w", encoding="utf-8", newline="")) for path in made
        )

        def write(src_line: str, tgt_line: str) -> None:
            src.write(f"{src_line}\n")
            tgt.write(f"{tgt_line}\n")

        yield write


def given_sources(data: CorpusData) -> dict[str, SourceConfig]:
    """Return the sources of ``data.val`` and ``data.test``, by split."""
    return {**({} if data.val is None else {"val": data.val}), **data.test}


def update_given_splits(data: CorpusData, directory: Path, is_begun: bool) -> list[ExplicitSplit]:
    """Write the splits that ``data`` names by a source, where the prepared corpus has others.

    If ``is_begun``, there are checkpoints: the sources of splits that are there are not looked at,
    and ``val`` may not change. Returned are the records of the splits that were written.

    Raises:
        CorpusError: a source cannot be read, or ``val`` is lost.
        OSError: a file cannot be written.
    """
    artifact = corpus_artifact(directory)
    record = artifact.read()
    assert record is not None, "the corpus is prepared"
    given, written = {}, {}
    for name, source in given_sources(data).items():
        known = record.given.get(name)
        damage = find_damage(directory, record, {name})
        # Checkpoints are chosen by val, so it stays, as the text that is trained on does.
        must_stay = is_begun and name == "val"
        if known is None or not _may_stay(known, damage, source, data, must_stay, is_begun):
            known = written[name] = write_given_split(name, source, data, directory)
        given[name] = known
    names = _file_names({*record.drawn, *given})
    files = {name: file for name, file in record.files.items() if name in names}
    files |= record_files(directory, _file_names(written))
    artifact.update(record, given=given, files=files)
    return list(written.values())


def _may_stay(
    split: ExplicitSplit,
    damage: str | None,
    source: SourceConfig,
    data: CorpusData,
    must_stay: bool,
    is_begun: bool,
) -> bool:
    """Return whether a split is there, and of its source as it is."""
    if split.settings != _settings(source) and not must_stay:
        return False
    if is_begun and damage is None:
        return True
    try:
        is_same = open_configured(source, data).source_sha256() == split.source_sha256
    except CorpusError:
        if not must_stay:
            raise
        is_same = False
    if must_stay and not is_same:
        raise lost_text_error(str(damage))
    return is_same and damage is None


def write_given_split(
    name: str, source: SourceConfig, data: CorpusData, directory: Path
) -> ExplicitSplit:
    """Write a split that has a source of its own; raise what ``update_given_splits`` does."""
    reader = open_configured(source, data)
    count = 0
    sha256 = reader.source_sha256()
    with open_writer(split_path(directory, name)) as write:
        for src, tgt in readable_pairs(reader.pairs()):
            count += 1
            write(src, tgt)
    return ExplicitSplit(
        name=f"{name} {source.name}",
        settings=_settings(source),
        source_sha256=sha256,
        pairs=count,
        bad=reader.bad.count,
        first_bad=reader.bad.why,
    )


def _settings(source: SourceConfig) -> str:
    return json.dumps(source.model_dump(mode="json"), sort_keys=True)
