"""Small JSON files with a SHA-256 of their content."""

import hashlib
import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from transformer_cli.files import write_text
from transformer_cli.foreign_files import read_small

Content = TypeVar("Content", bound=BaseModel)


def write_checksummed(path: Path, content: BaseModel) -> None:
    """Write ``content`` and its SHA-256 atomically.

    Raises:
        OSError: the file cannot be written; an older one is left as it was.
    """
    values = content.model_dump(mode="json", by_alias=True)
    checksummed = {"content": values, "sha256": _sha256(values)}
    write_text(path, json.dumps(checksummed, indent=2) + "\n")


def read_checksummed(path: Path, kind: type[Content]) -> Content | None:
    """Return what ``write_checksummed`` wrote; None if it is missing, damaged or no ``kind``."""
    try:
        read = json.loads(read_small(path))
        if set(read) != {"content", "sha256"} or read["sha256"] != _sha256(read["content"]):
            return None
        return kind.model_validate_json(json.dumps(read["content"]))
    except (OSError, ValueError, TypeError, RecursionError, ValidationError):
        return None


def _sha256(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
