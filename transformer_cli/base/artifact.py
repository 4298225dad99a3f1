"""Artifacts: directories made once from known inputs, and made again when those inputs change.

The record of an artifact, a JSON file in the directory, is written last. It lists a fingerprint of
each input, and the size and SHA-256 of each file. A single rename publishes the directory. A file
whose size differs from the record is damaged. Readers that need to be certain compare checksums.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from transformer_cli.base.files import MAX_SMALL_BYTES, read_small, sha256
from transformer_cli.base.text_files import write_text
from transformer_cli.base.writing import whole_directory

Content = TypeVar("Content", bound=BaseModel)


class FileRecord(BaseModel):
    """The size and checksum of a file when it was written."""

    model_config = ConfigDict(extra="forbid", strict=True)

    size: int
    sha256: str


class Record(BaseModel):
    """The content of a record: an artifact's inputs and files. Subclasses may add other fields."""

    model_config = ConfigDict(extra="forbid", strict=True)

    made_of: dict[str, str]  # fingerprint of each input, keyed by its name
    files: dict[str, FileRecord] = {}  # keyed by file name; filled in by ``Artifact.make``


AnyRecord = TypeVar("AnyRecord", bound=Record)


@dataclass(frozen=True)
class Artifact(Generic[AnyRecord]):
    """A directory that is made once, with a record; creating this object accesses no files."""

    path: Path
    kind: type[AnyRecord]  # the class of its record
    name: str = "artifact.json"  # the name of the file with the record

    def read(self) -> AnyRecord | None:
        """Return the record, or None if it is missing, damaged or of another version."""
        return read_record(self.path / self.name, self.kind)

    def make(self, write: Callable[[Path], AnyRecord]) -> AnyRecord:
        """Create the directory, which must not exist yet; after an error, nothing is left behind.

        ``write`` gets a directory, writes the files into it, and returns the record.
        """
        with whole_directory(self.path) as temporary:
            record = write(temporary)
            record.files = record_files(temporary)
            write_record(temporary / self.name, record)
        return record

    def update(self, old: AnyRecord, **changes: object) -> None:
        """Apply ``changes`` to the record ``old`` and write it, unless they make no difference."""
        if (record := old.model_copy(update=changes)) != old:
            write_record(self.path / self.name, record)

    def find_damage(self, record: AnyRecord, compares_sums: bool = False) -> str | None:
        """Return a message about the first missing or damaged file, or None if there is none.

        With ``compares_sums``, also read the files and compare their checksums. Use this for files
        that other people may have made or changed.
        """
        for name, file in record.files.items():
            path = self.path / name
            if not path.is_file():
                return f"{path}: is missing"
            is_whole = path.stat().st_size == file.size
            if not is_whole or (compares_sums and sha256(path) != file.sha256):
                return f"{path}: has changed since it was written"
        return None


def record_files(directory: Path) -> dict[str, FileRecord]:
    """Return the size and SHA-256 of each file in a directory, keyed by file name."""
    files = (path for path in sorted(directory.iterdir()) if path.is_file())
    return {path.name: FileRecord(size=path.stat().st_size, sha256=sha256(path)) for path in files}


def write_record(path: Path, content: BaseModel) -> None:
    """Write ``content`` as JSON with its SHA-256; the file appears whole or not at all."""
    values = content.model_dump(mode="json", by_alias=True)
    write_text(path, json.dumps({"content": values, "sha256": sum_json(values)}, indent=2) + "\n")


def read_record(
    path: Path, kind: type[Content], max_bytes: int = MAX_SMALL_BYTES
) -> Content | None:
    """Return a ``kind`` that ``write_record`` wrote, or None if the file is missing or invalid."""
    try:
        read = json.loads(read_small(path, max_bytes))
        if set(read) != {"content", "sha256"} or read["sha256"] != sum_json(read["content"]):
            return None
        return kind.model_validate_json(json.dumps(read["content"]))
    except (OSError, ValueError, TypeError, RecursionError, ValidationError):
        return None


def sum_json(values: Any) -> str:
    """Return the SHA-256 of ``values`` as JSON; the order of keys makes no difference."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
