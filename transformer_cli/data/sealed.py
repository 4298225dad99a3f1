"""Small JSON files that are known as damaged when any bit of what they say has changed."""

import hashlib
import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from transformer_cli.files import write_text

Content = TypeVar("Content", bound=BaseModel)


def write_sealed(path: Path, content: BaseModel) -> None:
    """Write ``content`` whole, with its SHA-256.

    Raises:
        OSError: the file cannot be written; an older one is as it was.
    """
    values = content.model_dump(mode="json")
    sealed = {"content": values, "sha256": _sum(values)}
    write_text(path, json.dumps(sealed, indent=2) + "\n")


def read_sealed(path: Path, kind: type[Content]) -> Content | None:
    """What ``write_sealed`` wrote; None where there is no such file, whole and of this kind."""
    try:
        sealed = json.loads(path.read_bytes())
        if set(sealed) != {"content", "sha256"} or sealed["sha256"] != _sum(sealed["content"]):
            return None
        return kind.model_validate_json(json.dumps(sealed["content"]))
    except (OSError, ValueError, TypeError, RecursionError, ValidationError):
        return None


def _sum(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
