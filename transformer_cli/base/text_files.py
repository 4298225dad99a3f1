"""Open text files, local or at URLs, to read their bytes, or write whole text files.

Extensions read and write compressed files, whose names end in a certain way::

    provides = {"compression": {"lz": {"load": "lz:FORMAT", "ending": ".lz", "magic": b"LZIP"}}}

A compressed file consists of one or more members, each of which can be decompressed on its own.
Writers end a member at each flush, so a file can be cut off at the end of a member, and continued.
"""

import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TextIO, cast

from transformer_cli.base import registry
from transformer_cli.base.errors import CorpusError, MissingExtraError, MissingTextError
from transformer_cli.base.locations import SpecialFileError, locate
from transformer_cli.base.writing import whole_file

_CHUNK_BYTES = 1 << 17
# Known even without an extension, so that such files are never treated as plain text.
_COMPRESSED = (".gz", ".xz", ".zst")


class Compression(Protocol):
    """A format of compressed files that an extension provides.

    Each method raises MissingExtraError if the format's package is not installed.
    """

    def compressor(self, path: Path) -> Callable[[bytes], bytes]:
        """Return a function that compresses bytes into one whole member of the file ``path``."""

    def decompress(self, path: Path, file: io.RawIOBase) -> io.RawIOBase:
        """Return a reader of the decompressed bytes of all members; its memory use is bounded.

        Reading raises CorpusError, which names ``path``, if the file is damaged or cut off.
        """

    def create(self, path: Path, named: Path) -> BinaryIO:
        """Create ``path`` to write compressed members to it; its final name will be ``named``."""


def _find_compression(path: Path) -> Compression | None:
    """Return the compression that a file's name shows, e.g. by .gz, or None for plain files."""
    entries = registry.entries("compression")
    for entry in entries.values():
        if entry.facts["ending"] == path.suffix:
            return cast(Compression, entry.load())
    if path.suffix in _COMPRESSED:
        problem = registry.describe_missing("compression", path.suffix, entries)
        raise MissingExtraError(f"{path}: {problem}")
    return None


def is_compressed(path: Path) -> bool:
    """Return whether the name of a file shows that it is compressed, e.g. by .gz."""
    endings = (entry.facts["ending"] for entry in registry.entries("compression").values())
    return path.suffix in (*_COMPRESSED, *endings)


def find_compressed_ending(data: bytes) -> str | None:
    """Return the file extension of the compressed format with these first bytes, or None."""
    entries = [*registry.entries("compression").values(), *registry.entries("location").values()]
    for entry in entries:
        if (magic := entry.facts.get("magic")) and data.startswith(magic):
            return str(entry.facts.get("ending") or entry.facts["inside"])
    return None


# --- reading --------------------------------------------------------------------------------------


def open_text(path: Path, once: bool = False) -> io.BufferedReader:
    """Open a text file to read its bytes, decompressed if its name ends in .gz or similar.

    With ``once``, it may also be a pipe or a device. CorpusError is raised if it cannot be opened,
    or later, while reading, if it turns out to be damaged or cut off.
    """
    compression = _find_compression(path)
    with _naming_errors(path):
        file: io.RawIOBase = Reader(locate(path).open(path, once), partial(_naming_errors, path))
    if compression is not None:
        file = compression.decompress(path, file)
    return io.BufferedReader(file, _CHUNK_BYTES)


@contextmanager
def _naming_errors(path: Path) -> Iterator[None]:
    """Turn errors from opening or reading a file into errors for the user."""
    try:
        yield
    except SpecialFileError:
        raise CorpusError(
            f"{path}: a pipe or a device can be read only once, but training reads its text "
            "several times; save it in a file"
        ) from None
    except FileNotFoundError:
        raise MissingTextError(
            f"{path}: there is no such file; relative paths start from the working directory, "
            f"here {Path.cwd()}"
        ) from None
    except IsADirectoryError:
        raise CorpusError(f"{path}: this is a directory; give the path of a text file") from None
    except OSError as error:
        raise CorpusError(
            f"{path}: cannot be read ({error.strerror}); check the path and its permissions"
        ) from error


class Reader(io.RawIOBase):
    """An open file whose errors ``naming_errors`` turns into user errors."""

    def __init__(
        self, file: Any, naming_errors: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._file = file
        self._naming_errors = naming_errors

    def readable(self) -> bool:
        """Return True."""
        return True

    def isatty(self) -> bool:
        """Return whether the file is a terminal, where a person types the bytes."""
        return bool(self._file.isatty())

    def readinto(self, buffer: Any) -> int:
        """Read at most as many bytes as the buffer can hold; return their number."""
        with self._naming_errors():
            data = self._read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _read(self, size: int) -> bytes:
        return cast(bytes, self._file.read(size))

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._file.close()
        super().close()


# --- writing --------------------------------------------------------------------------------------


def compressor(path: Path) -> Callable[[bytes], bytes]:
    """Return a function that compresses bytes if ``path`` ends in .gz or similar."""
    compression = _find_compression(path)
    return bytes if compression is None else compression.compressor(path)


def text_writer(target: Path, path: Path) -> TextIO:
    """Open ``target`` to write UTF-8, compressed if the name of ``path`` ends in .gz or similar."""
    compression = _find_compression(path)
    file = target.open("wb") if compression is None else compression.create(target, path)
    return io.TextIOWrapper(file, encoding="utf-8", newline="")


def write_text(path: Path, text: str, is_named: bool = False) -> None:
    """Write a whole UTF-8 file, compressed if its name ends in .gz or similar; keep line ends.

    ``is_named`` means the same as for ``whole_file``.
    """
    compress = compressor(path)
    with whole_file(path, is_named) as temporary:
        temporary.write_bytes(compress(text.encode()))
