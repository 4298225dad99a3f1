"""What an imported run was made of, in its import.json."""

import json
from pathlib import Path

from transformer_cli.files import read_small
from transformer_cli.runs.contents import IMPORT
from transformer_cli.runs.directory import RunDirectory


def find_import_source(run: RunDirectory) -> str | None:
    """Return the name of the model that ``run`` was imported from; None: it was not imported.

    It is the Hub's name with the commit, or a directory's name without its path, which is private.
    """
    try:
        record = json.loads(read_small(run.path / IMPORT))
        source, revision = str(record["source"]), record["revision"]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return None
    return f"{source} at commit {revision}" if revision else Path(source).name
