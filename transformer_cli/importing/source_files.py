"""Files of a model's directory, which is not trusted."""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from transformer_cli.errors import ImportedModelError
from transformer_cli.files import open_regular

# In bytes, ten times the largest of OPUS-MT.
_MAX_JSON_SIZE = 1 << 26
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
# transformers does not read others; and none of them leads out of the directory.
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")


class SourceFiles:
    """Files of a directory, and the SHA-256 of those that were read.

    Attributes:
        directory: where they lie.
        sha256: SHA-256 of what was read, by name.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.sha256: dict[str, str] = {}
        self._roots = [directory.resolve()]
        if directory.resolve().parent.name == "snapshots":
            # In the cache of the Hugging Face Hub, files are links to ../../blobs.
            self._roots.append(directory.resolve().parent.parent / "blobs")

    def has(self, name: str) -> bool:
        """Return whether there is a file of this name, or anything else."""
        return os.path.lexists(self.directory / name)

    def read(self, name: str, max_size: int) -> bytes:
        """Return a file's bytes.

        Raises:
            ImportedModelError: it cannot be read, is too large, or lies outside the directory.
        """
        with self.open(name, max_size) as (file, size):
            return self.finish(name, file, size)

    def read_json(self, name: str) -> dict[str, Any]:
        """Return the JSON object in a file.

        Raises:
            ImportedModelError: there is none.
        """
        return self.parse(name, self.read(name, _MAX_JSON_SIZE))

    @contextmanager
    def open(self, name: str, max_size: int) -> Iterator[tuple[BinaryIO, int]]:
        """Open a file; yield it with its size.

        Raises:
            ImportedModelError: as ``read``.
        """
        path = self.directory / name
        if not _FILE_NAME.fullmatch(name):
            raise ImportedModelError(
                f"{self.directory}: names the file {name!r}, which cannot be one of this directory"
            )
        target = Path(os.path.realpath(path))  # resolve() raises other errors at links in a loop
        if not any(target.is_relative_to(root) for root in self._roots):
            raise ImportedModelError(
                f"{path}: is a link to a file elsewhere; copy that file into the directory"
            )
        try:
            file = open_regular(path)
        except OSError as error:
            raise self.error(name, f"cannot be read ({error.strerror})") from error
        with file:
            size = os.fstat(file.fileno()).st_size
            if size > max_size:
                raise self.error(name, f"has {size:,} bytes, more than {max_size:,}")
            if self._read(name, file, len(_LFS_POINTER)) == _LFS_POINTER:
                raise self.error(name, "is a pointer of Git LFS; get the file with: git lfs pull")
            file.seek(0)
            yield file, size

    def finish(self, name: str, file: BinaryIO, size: int) -> bytes:
        """Return the bytes of an open file, from its start, and record their SHA-256.

        Raises:
            ImportedModelError: its size has changed.
        """
        file.seek(0)
        data = self._read(name, file, size + 1)
        if len(data) != size:
            raise self.error(name, "changes while it is read; import again")
        self.sha256[name] = hashlib.sha256(data).hexdigest()
        return data

    def _read(self, name: str, file: BinaryIO, size: int) -> bytes:
        try:
            return file.read(size)
        except OSError as error:
            raise self.error(name, f"cannot be read ({error.strerror})") from error

    def parse(self, name: str, data: bytes) -> dict[str, Any]:
        """Return the JSON object in a file's bytes.

        Raises:
            ImportedModelError: there is none.
        """
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self.error(name, f"is not JSON ({error})") from error
        if not isinstance(found, dict):
            raise self.error(name, "is not a JSON object")
        return found

    def error(self, name: str, problem: str) -> ImportedModelError:
        """Return an error that names a file."""
        return ImportedModelError(f"{self.directory / name}: {problem}")
