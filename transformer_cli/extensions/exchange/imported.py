"""The data and tokenizer kinds of runs made by ``import``: no text, but a file import.json.

import.json names the imported model. A run that starts from such a run gets a copy of the file.
"""

from pathlib import Path
from typing import Literal, NoReturn

from transformer_cli.base.files import read_json
from transformer_cli.config.data_schema import DataSection
from transformer_cli.config.sections import setting
from transformer_cli.config.tokenizer_schema import TokenizerSection
from transformer_cli.data.kinds import CorpusKind

IMPORT = "import.json"


class ImportedData(DataSection):
    """An imported model, which has languages but no text."""

    kind: Literal["imported"]


class MarianConfig(TokenizerSection):
    """The tokenizers of an imported Marian model: SentencePiece models and tables of ids."""

    kind: Literal["marian"]
    joint: bool = setting(True, "whether both sides share one table of ids")

    @property
    def lowercase(self) -> bool:
        return False


class ImportedKind(CorpusKind[ImportedData]):
    """The ``data.kind`` of an imported run, which has languages but no text."""

    def split_names(self) -> list[str]:
        return []

    def open_split(self, split: str, place: Path | None) -> NoReturn:
        raise AssertionError("it has no splits")


def find_import_source(run: Path) -> str | None:
    """Return the name of the imported model that a run contains or started from, or None."""
    match read_json(run / IMPORT):
        case {"source": str() as source, "revision": revision}:
            # A directory's path is private.
            return f"{source} at commit {revision}" if revision else Path(source).name
    return None
