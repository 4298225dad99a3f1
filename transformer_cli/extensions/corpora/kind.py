"""The data kind ``corpus``: sources in several formats, filtered and split for a run."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from transformer_cli.base.errors import CorpusError, RunError
from transformer_cli.data.corpus import ParallelFiles, ParallelText
from transformer_cli.data.kinds import CorpusKind, Preparation
from transformer_cli.extensions.corpora import prepared
from transformer_cli.extensions.corpora.settings import CorpusData


class SourcesKind(CorpusKind[CorpusData]):
    """Data whose splits are drawn from ``data.sources``, or read from a source of their own.

    A run with checkpoints keeps the text that it began with, even if ``data.sources`` changes.
    """

    keeps_text = True

    def split_names(self) -> list[str]:
        data = self.data
        return ["train", "val", *(["test"] if data.split and data.split.test else []), *data.test]

    def open_split(self, split: str, place: Path | None) -> ParallelFiles | ParallelText:
        if (source := self.data.given_splits.get(split)) is not None:
            return prepared.read_given(source, self.data)
        record = None if place is None else prepared.read_corpus_record(place)
        if place is None or record is None:
            raise CorpusError(
                f"split '{split}': the sources have not been read yet, or the run's copy is "
                "missing, as in a shared model; transformer-cli vocab CONFIG and train CONFIG read "
                "them, and evaluate --src FILE --ref FILE does not need them"
            )
        if damage := prepared.find_damage(place, record, {split}):
            raise CorpusError(
                f"{damage}; restore it, or write it again with transformer-cli train CONFIG, "
                "if the sources have not changed"
            )
        return prepared.split_path(place, split)

    def read_split(self, split: str, place: Path | None) -> ParallelText:
        text = self.open_split(split, place)
        if isinstance(text, ParallelText):
            return text
        return prepared.read_split(text.src.parent, split, self.data)

    def is_here(self, split: str, place: Path | None) -> bool:
        """Return False if the split has a source of its own that must be downloaded, else True."""
        source = self.data.given_splits.get(split)
        return source is None or source.is_local

    def has_prepared(self, directory: Path, is_begun: bool) -> bool:
        """Return whether ``directory`` has the run's text, up to date unless training has begun."""
        from transformer_cli.extensions.corpora.preparing import is_prepared

        record = prepared.read_corpus_record(directory)
        if record is None:
            if directory.is_dir() and is_begun:
                raise RunError(
                    f"{directory / prepared.RECORD}: missing, damaged or from another version, but "
                    "it describes the run's text and is needed; restore it, or start again with "
                    "--overwrite"
                )
            return False
        damage = prepared.find_damage(directory, record)
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


def describe_record(record: prepared.CorpusRecord) -> Iterator[str]:
    """Yield one line per source: how many pairs it has, and how many were kept or left out."""
    for source in record.sources:
        kept = ", ".join(f"{count:,} {split}" for split, count in source.kept.items()) or "none"
        left_out = [f"{count:,} {name}" for name, count in source.removed.items()]
        if source.bad:
            why = f" ({source.first_bad})" if source.first_bad else ""
            left_out.append(f"{source.bad:,} unreadable{why}")
        reasons = ", ".join(left_out) or "none"
        yield f"{source.name}: {source.pairs:,} pairs; kept: {kept}; left out: {reasons}"
