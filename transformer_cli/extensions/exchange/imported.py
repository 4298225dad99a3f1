"""The data kind of a run made by ``import``: it has no text, but import.json.

import.json names the imported model; later runs copy it from the run in their ``init``.
"""

from pathlib import Path
from typing import NoReturn

from transformer_cli.base.files import read_json
from transformer_cli.data.kinds import CorpusKind
from transformer_cli.extensions.exchange.settings import ImportedData

IMPORT = "import.json"


class ImportedKind(CorpusKind[ImportedData]):
    """A kind of data without text."""

    def split_names(self) -> list[str]:
        return []

    def open_split(self, split: str, place: Path | None) -> NoReturn:
        raise AssertionError("it has no splits")


def find_import_source(run: Path) -> str | None:
    """Return the name of the model that a run was imported from or began with, else None."""
    match read_json(run / IMPORT):
        case {"source": str() as source, "revision": revision}:
            # A directory's path is private.
            return f"{source} at commit {revision}" if revision else Path(source).name
    return None
