"""What a run that ``import`` has made has: no text, and import.json.

That says what it was imported from; later runs take it over from their ``init``.
"""

from pathlib import Path
from typing import NoReturn

from transformer_cli.base.files import read_json
from transformer_cli.data.kinds import CorpusKind
from transformer_cli.extensions.exchange.settings import ImportedData

IMPORT = "import.json"


class ImportedKind(CorpusKind[ImportedData]):
    """No text."""

    def split_names(self) -> list[str]:
        return []

    def open_split(self, split: str, place: Path | None) -> NoReturn:
        raise AssertionError("it has no splits")


def find_import_source(run: Path) -> str | None:
    """Return the name of the model that a run was imported from, or began with; None: neither."""
    match read_json(run / IMPORT):
        case {"source": str() as source, "revision": revision}:
            # A directory's path is private.
            return f"{source} at commit {revision}" if revision else Path(source).name
    return None
