"""What a run that ``import`` has made has: no text, and import.json.

That says what it was imported from; later runs take it over from their ``init``.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from transformer_cli.base.files import read_json
from transformer_cli.base.text_files import write_text
from transformer_cli.config.schema import Config
from transformer_cli.config.setting_tree import Node
from transformer_cli.data.kinds import CorpusKind
from transformer_cli.extensions.exchange.settings import ImportedData
from transformer_cli.runs.directory import RunDirectory

IMPORT = "import.json"


class ImportedKind(CorpusKind[ImportedData]):
    """No text."""

    def split_names(self) -> list[str]:
        return []

    def open_split(self, split: str, place: Path | None) -> NoReturn:
        raise AssertionError("it has no splits")


def begin_record(run: RunDirectory, config: Config, root: Node) -> Callable[[], None]:
    """Return what takes over what ``init`` was imported from, as that run may be gone one day."""
    imported = None if config.init is None else read_json(config.init / IMPORT)

    def record() -> None:
        if run.has_checkpoints:
            return
        (run.path / IMPORT).unlink(missing_ok=True)
        if imported is not None:
            write_text(run.path / IMPORT, json.dumps(imported, indent=1) + "\n")

    return record


def find_import_source(run: Path) -> str | None:
    """Return the name of the model that a run was imported from, or began with; None: neither."""
    match read_json(run / IMPORT):
        case {"source": str() as source, "revision": revision}:
            # A directory's path is private.
            return f"{source} at commit {revision}" if revision else Path(source).name
    return None
