"""The kind of data ``corpus``: sources of several formats, filtered and split into a run."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from transformer_cli.base.errors import CorpusError, RunError
from transformer_cli.data.corpus import ParallelFiles, ParallelText
from transformer_cli.data.kinds import CorpusKind, Preparation
from transformer_cli.extensions.corpora import prepared
from transformer_cli.extensions.corpora.settings import CorpusData, SourceConfig


class SourcesKind(CorpusKind[CorpusData]):
    """Splits that were drawn from sources, or have a source of their own.

    A run that has checkpoints goes on with its own text, whatever became of ``data.sources``.
    """

    keeps_text = True

    def split_names(self) -> list[str]:
        split = self.data.split
        drawn = ["test"] if split is not None and split.test else []
        return ["train", "val", *drawn, *self.data.test]

    def open_split(self, split: str, place: Path | None) -> ParallelFiles | ParallelText:
        if (source := self._given.get(split)) is not None:
            return prepared.read_given(source, self.data)
        record = None if place is None else prepared.read_corpus_record(place)
        if place is None or record is None:
            raise CorpusError(
                f"split '{split}': the sources are not read yet, or the run's copy of them is "
                "gone, as in a shared model; transformer-cli vocab CONFIG and train CONFIG read "
                "them, and evaluate --src FILE --ref FILE needs none"
            )
        if damage := prepared.find_damage(place, record, {split}):
            raise CorpusError(
                f"{damage}; restore it, or have transformer-cli train CONFIG write it again, which "
                "it does while the sources are as they were"
            )
        return prepared.split_path(place, split)

    def read_split(self, split: str, place: Path | None) -> ParallelText:
        """Read a split with the tags of its sources."""
        text = self.open_split(split, place)
        if isinstance(text, ParallelText):
            return text
        return prepared.read_split(text.src.parent, split, self.data)

    def is_here(self, split: str, place: Path | None) -> bool:
        """Return whether the source of a split that has one is a file of this machine."""
        return split not in self._given or self._given[split].is_local

    @property
    def _given(self) -> dict[str, SourceConfig]:
        return prepared.given_sources(self.data)

    def has_prepared(self, directory: Path, is_begun: bool) -> bool:
        """Return whether the text is of the sources as they are, or is trained on already."""
        from transformer_cli.extensions.corpora.preparing import is_prepared

        record = prepared.read_corpus_record(directory)
        if record is None:
            if directory.is_dir() and is_begun:
                raise RunError(
                    f"{directory / prepared.RECORD}: missing, damaged or of another version, and "
                    "what it tells of the run's text is needed; restore it, or start again with "
                    "--overwrite"
                )
            return False
        damage = prepared.find_damage(directory, record)
        if not is_begun:
            return damage is None and is_prepared(self.data, directory)
        if damage is None:
            return True
        with suppress(CorpusError):  # a source is gone
            if is_prepared(self.data, directory):
                return False  # it can be made again
        raise CorpusError(
            f"{damage}, and what it was made of is gone or has changed, so it cannot be written "
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
    """Yield a line about each source: how many pairs it has, and how many are kept."""
    for source in record.sources:
        kept = ", ".join(f"{count:,} {split}" for split, count in source.kept.items()) or "none"
        left_out = [f"{count:,} {name}" for name, count in source.removed.items()]
        if source.bad:
            why = f" ({source.first_bad})" if source.first_bad else ""
            left_out.append(f"{source.bad:,} that cannot be read{why}")
        reasons = ", ".join(left_out) or "none"
        yield f"{source.name}: {source.pairs:,} pairs; kept: {kept}; left out: {reasons}"
