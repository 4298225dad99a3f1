"""Text files, wherever they lie: opened to read their bytes, or written whole.

Extensions read and write compressed ones, by the endings of their names::

    provides = {"compression": {"lz": {"load": "lz:FORMAT", "ending": ".lz", "magic": b"LZIP"}}}

A compressed file has one or several members. What is written here ends a member at each flush, so
that a file may be cut at a member's end and continued.
"""

import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TextIO, cast

from transformer_cli.base import registry
from transformer_cli.base.errors import CorpusError, MissingExtraError, MissingTextError
from transformer_cli.base.locations import SpecialFileError, is_local, locate
from transformer_cli.base.writing import whole_file

_CHUNK_BYTES = 1 << 17
# Known without an extension too: neither read nor written as if they were plain text.
_COMPRESSED = (".gz", ".xz", ".zst")


class Compression(Protocol):
    """A format of compressed files, which an extension provides.

    Each method raises MissingExtraError if the format's package is not installed.
    """

    def compressor(self, path: Path) -> Callable[[bytes], bytes]:
        """Return the function that makes a whole member of bytes, for the file ``path``."""

    def decompress(self, path: Path, file: io.RawIOBase) -> io.RawIOBase:
        """Return what reads the bytes of all members of ``file``, a bounded number at a time.

        Reading raises CorpusError, which names ``path``, if they are damaged or cut off.
        """

    def create(self, path: Path, named: Path) -> BinaryIO:
        """Open a new file, whose final name is ``named``, to write compressed members into it."""


def _find_compression(path: Path) -> Compression | None:
    """Return the format of a file by its name's ending; None: it is not compressed."""
    entries = registry.entries("compression")
    for entry in entries.values():
        if entry.facts["ending"] == path.suffix:
            return cast(Compression, entry.load())
    if path.suffix in _COMPRESSED:
        problem = registry.describe_missing("compression", path.suffix, entries)
        raise MissingExtraError(f"{path}: {problem}")
    return None


def is_compressed(path: Path) -> bool:
    """Return whether the ending of ``path`` is that of a compressed file."""
    endings = (entry.facts["ending"] for entry in registry.entries("compression").values())
    return path.suffix in (*_COMPRESSED, *endings)


def find_compressed_ending(data: bytes) -> str | None:
    """Return the ending that a file of these first bytes should have; None: it is plain."""
    entries = [*registry.entries("compression").values(), *registry.entries("location").values()]
    for entry in entries:
        if (magic := entry.facts.get("magic")) and data.startswith(magic):
            return str(entry.facts.get("ending") or entry.facts["inside"])
    return None


def is_plain(path: Path) -> bool:
    """Return whether a path is that of a file of this machine which is not compressed."""
    return not is_compressed(path) and is_local(path)


# --- reading --------------------------------------------------------------------------------------


def open_text(path: Path, once: bool = False) -> io.BufferedReader:
    """Open text to read its bytes, decompressed as its name's ending says.

    If a user has named it to be read ``once``, a pipe or a device will do. CorpusError may be
    raised now or later, as it is read and found damaged or cut off.
    """
    compression = _find_compression(path)
    with _naming_errors(path):
        file: io.RawIOBase = Reader(locate(path).open(path, once), partial(_naming_errors, path))
    if compression is not None:
        file = compression.decompress(path, file)
    return io.BufferedReader(file, _CHUNK_BYTES)


@contextmanager
def _naming_errors(path: Path) -> Iterator[None]:
    """Turn the errors of opening and reading a file into ones for the user."""
    try:
        yield
    except SpecialFileError:
        raise CorpusError(
            f"{path}: a pipe or a device can be read only once, but training reads its text "
            "several times; save it in a file"
        ) from None
    except FileNotFoundError:
        raise MissingTextError(
            f"{path}: there is no such file; relative paths start from the directory that the "
            f"command is run in, here {Path.cwd()}"
        ) from None
    except IsADirectoryError:
        raise CorpusError(f"{path}: this is a directory; give the path of a text file") from None
    except OSError as error:
        raise CorpusError(
            f"{path}: cannot be read ({error.strerror}); check the path and its permissions"
        ) from error


class Reader(io.RawIOBase):
    """An open file whose errors ``naming_errors`` turns into ours."""

    def __init__(
        self, file: Any, naming_errors: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._file = file
        self._naming_errors = naming_errors

    def readable(self) -> bool:
        """Return True."""
        return True

    def isatty(self) -> bool:
        """Return whether somebody types it."""
        return bool(self._file.isatty())

    def readinto(self, buffer: Any) -> int:
        """Read at most as many bytes as the buffer has."""
        with self._naming_errors():
            data = self._read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _read(self, size: int) -> bytes:
        data: bytes = self._file.read(size)
        return data

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._file.close()
        super().close()


# --- writing --------------------------------------------------------------------------------------


def compressor(path: Path) -> Callable[[bytes], bytes]:
    """Return the function that makes a whole member of bytes; for plain text it changes nothing."""
    compression = _find_compression(path)
    return bytes if compression is None else compression.compressor(path)


def text_writer(target: Path, path: Path) -> TextIO:
    """Open ``target`` to write UTF-8 into it, compressed as the ending of ``path`` says."""
    compression = _find_compression(path)
    file = target.open("wb") if compression is None else compression.create(target, path)
    return io.TextIOWrapper(file, encoding="utf-8", newline="")


def write_text(path: Path, text: str, is_named: bool = False) -> None:
    """Write UTF-8 text whole, with line ends as they are, compressed if the name ends so.

    ``is_named`` as for ``whole_file``.
    """
    compress = compressor(path)
    with whole_file(path, is_named) as temporary:
        temporary.write_bytes(compress(text.encode()))
