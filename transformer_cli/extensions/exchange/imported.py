"""What a run that ``import`` has made has: no text, and import.json.

That says what it was imported from; later runs take it over from their ``init``.
"""

import json
from pathlib import Path
from typing import NoReturn

from transformer_cli.base.files import read_json
from transformer_cli.base.text_files import write_text
from transformer_cli.config.schema import Config
from transformer_cli.data.kinds import CorpusKind
from transformer_cli.extensions.exchange.settings import ImportedData

IMPORT = "import.json"


class ImportedKind(CorpusKind[ImportedData]):
    """No text."""

    def split_names(self) -> list[str]:
        return []

    def open_split(self, split: str, place: Path | None) -> NoReturn:
        raise AssertionError("it has no splits")


def record_import(run: Path, config: Config) -> None:
    """Take over what ``init`` was imported from, as that run may be gone one day."""
    (run / IMPORT).unlink(missing_ok=True)
    if config.init is not None and (imported := read_json(config.init / IMPORT)) is not None:
        write_text(run / IMPORT, json.dumps(imported, indent=1) + "\n")


def find_import_source(run: Path) -> str | None:
    """Return the name of the model that a run was imported from, or began with; None: neither."""
    match read_json(run / IMPORT):
        case {"source": str() as source, "revision": revision}:
            # A directory's path is private.
            return f"{source} at commit {revision}" if revision else Path(source).name
    return None
