"""The data kind ``corpus``, and its prepared corpus: the files of its splits, and their record.

A prepared corpus is an ``Artifact`` with two files per split, e.g. train.src and train.tgt, and
sources.json. A split's pairs are in the order of the sources. ``preparing.py`` writes the corpus. A
split with a source of its own is not part of the corpus; that source is read directly.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from transformer_cli.base.artifact import Artifact, Record
from transformer_cli.base.errors import CorpusError, RunError
from transformer_cli.base.writing import whole_file
from transformer_cli.data.corpus import ParallelFiles, ParallelText
from transformer_cli.data.kinds import CorpusKind, Preparation
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


# --- the kind ------------------------------------------------------------------------------------


class SourcesKind(CorpusKind[CorpusData]):
    """Data whose splits are drawn from ``data.sources``, or read from a source of their own.

    A run with checkpoints keeps the text that it began with, even if ``data.sources`` changes.
    """

    keeps_text = True

    def split_names(self) -> list[str]:
        drawn = ["test"] if self.data.split and self.data.split.test else []
        return ["train", "val", *drawn, *self.data.test]

    def open_split(self, split: str, place: Path | None) -> ParallelFiles | ParallelText:
        if (source := self.data.given_splits.get(split)) is not None:
            pairs = list(readable_pairs(open_configured(source, self.data).pairs()))
            lines = [TaggedLine(src, source.tag) if source.tag else src for src, _ in pairs]
            return ParallelText(lines, [tgt for _, tgt in pairs])
        record = None if place is None else read_corpus_record(place)
        if place is None or record is None:
            raise CorpusError(
                f"split '{split}': the sources have not been read yet, or the run's copy is "
                "missing, as in a shared model; transformer-cli vocab CONFIG and train CONFIG read "
                "them, and evaluate --src FILE --ref FILE does not need them"
            )
        if damage := find_damage(place, record, {split}):
            raise CorpusError(
                f"{damage}; restore it, or write it again with transformer-cli train CONFIG, "
                "if the sources have not changed"
            )
        return split_path(place, split)

    def read_split(self, split: str, place: Path | None) -> ParallelText:
        """Read a split, with tags on source lines."""
        files = self.open_split(split, place)
        if isinstance(files, ParallelText):
            return files
        place = files.src.parent
        text, record = files.read(), read_corpus_record(place)
        if record is None or len(record.sources) != len(self.data.sources):
            raise CorpusError(f"{place / RECORD}: missing or damaged; delete {place}")
        tags = [
            source.tag
            for source, made in zip(self.data.sources, record.sources, strict=True)
            for _ in range(made.kept.get(split, 0))
        ]
        return ParallelText(list(map(TaggedLine, text.src, tags)), text.tgt) if any(tags) else text

    def is_here(self, split: str, place: Path | None) -> bool:
        """Return False if the split has a source of its own that must be downloaded, else True."""
        source = self.data.given_splits.get(split)
        return source is None or source.is_local

    def has_prepared(self, directory: Path, is_begun: bool) -> bool:
        """Return whether ``directory`` has the run's text, up to date unless training has begun."""
        from transformer_cli.extensions.corpora.preparing import is_prepared

        record = read_corpus_record(directory)
        if record is None:
            if directory.is_dir() and is_begun:
                raise RunError(
                    f"{directory / RECORD}: missing, damaged or from another version, but "
                    "it describes the run's text and is needed; restore it, or start again with "
                    "--overwrite"
                )
            return False
        damage = find_damage(directory, record)
        if not is_begun:
            return damage is None and is_prepared(self.data, directory)
        if damage is None:
            return True
        with suppress(CorpusError):  # a source is missing
            if is_prepared(self.data, directory):
                return False  # the text can be written again
        raise CorpusError(
            f"{damage}, and its sources are missing or have changed, so it cannot be written "
            "again; restore the file, or start again with --overwrite"
        )

    def prepare(self, preparation: Preparation) -> None:
        from transformer_cli.extensions.corpora.preparing import prepare_corpus

        directory, is_begun, clear, log, executor = preparation
        if self.has_prepared(directory, is_begun):
            return
        clear()
        for line in describe_record(prepare_corpus(self.data, directory, executor)):
            log(line)


def describe_record(record: CorpusRecord) -> Iterator[str]:
    """Yield one line per source: how many pairs it has, and how many were kept or left out."""
    for source in record.sources:
        kept = ", ".join(f"{count:,} {split}" for split, count in source.kept.items()) or "none"
        left_out = [f"{count:,} {name}" for name, count in source.removed.items()]
        if source.bad:
            why = f" ({source.first_bad})" if source.first_bad else ""
            left_out.append(f"{source.bad:,} unreadable{why}")
        reasons = ", ".join(left_out) or "none"
        yield f"{source.name}: {source.pairs:,} pairs; kept: {kept}; left out: {reasons}"
