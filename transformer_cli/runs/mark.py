"""Mark run directories, and recognise them."""

import json
from pathlib import Path
from typing import Any

from transformer_cli.compression import write_text
from transformer_cli.config.origins import load_origins
from transformer_cli.config.yaml import is_resolved
from transformer_cli.errors import RunError
from transformer_cli.files import read_small
from transformer_cli.packages import __version__
from transformer_cli.runs.contents import CONFIG, MARK

FORMAT = 1
_PROGRAM = "transformer-cli"
# Keys that the files of all formats have.
_MANIFEST_KEYS = {"format", "tokenizer", "files"}
_TOKENIZER_KEYS = {"format", "kind", "learned_from", "sha256"}


def write_mark(run: Path) -> None:
    """Mark a directory as a run unless it is marked.

    Raises:
        OSError: it cannot be written.
    """
    if not is_marked(run):
        mark = {"format": FORMAT, "program": _PROGRAM, "version": __version__}
        write_text(run / MARK, json.dumps(mark) + "\n")


def is_run(run: Path) -> bool:
    """Return whether a directory is marked as a run, or is a run older than marks.

    Raises:
        RunError: a later version has marked it, or another program has a file of that name.
    """
    return is_marked(run) or _is_unmarked_run(run)


def is_marked(run: Path) -> bool:
    """Return whether a directory is marked as a run.

    Raises:
        RunError: a later version has marked it, or another program has a file of that name.
    """
    path = run / MARK
    if not path.exists():
        return False
    mark = _read_json(path)
    found = mark.get("format")
    if mark.get("program") != _PROGRAM or not isinstance(found, int):
        raise RunError(
            f"{path}: was not written by transformer-cli, or is damaged; choose another directory "
            "with --run-dir, or delete the file if this is a run"
        )
    if found > FORMAT:
        raise RunError(
            f"{path}: format {found}, by transformer-cli {mark.get('version')}, but this version "
            f"knows formats up to {FORMAT}; use a newer one, or choose another --run-dir"
        )
    return True


def _is_unmarked_run(run: Path) -> bool:
    """Return whether there is a config.yaml and a file that no other program writes."""
    config = run / CONFIG
    if not config.is_file():
        return False
    manifests = run.glob("checkpoints/*/manifest.json")
    return (
        any(_read_json(path).keys() >= _MANIFEST_KEYS for path in manifests)
        or bool(load_origins(run / "origins.json"))
        or (
            _read_json(run / "tokenizer" / "tokenizer.json").keys() >= _TOKENIZER_KEYS
            and is_resolved(config)
        )
    )


def _read_json(path: Path) -> dict[str, Any]:
    """Return a file's JSON object; an empty one if it has none."""
    try:
        content = json.loads(read_small(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
