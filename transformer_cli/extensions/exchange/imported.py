"""The kind of data of imported models, which come without text."""

from pathlib import Path

from transformer_cli.data.corpus import ParallelText
from transformer_cli.data.kinds import CorpusKind
from transformer_cli.extensions.exchange.settings import ImportedData


class ImportedKind(CorpusKind[ImportedData]):
    """No text."""

    def split_names(self) -> list[str]:
        return []

    def open_split(self, split: str, place: Path | None) -> ParallelText:
        raise AssertionError("it has no splits")
