"""Text files, compressed or not: a name's ending, .gz, .xz or .zst, says which.

All formats allow several compressed members one after another. What is written here ends a
member at each flush, so that a file may be cut at a member's end and gone on with.
"""

import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

from transformer_cli.errors import CorpusError, MissingExtraError
from transformer_cli.files import SpecialFileError, open_checked, whole_file

_FORMATS = {".gz": "gzip", ".xz": "xz", ".zst": "zstd"}
_MAGIC = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\0", ".zst": b"\x28\xb5\x2f\xfd"}
_CHUNK_BYTES = 1 << 17
_MEMBER_BYTES = 1 << 20


def open_text(path: Path, once: bool = False) -> io.BufferedReader:
    """Open a text file to read its bytes, decompressed as its name's ending says.

    Args:
        path: the file.
        once: whether a user has named it to be read once: then a pipe or a device will do.

    Raises:
        CorpusError: it cannot be opened or, later, read: it is damaged or cut off, say.
        MissingExtraError: the package that reads .zst is not installed.
    """
    new_member = _decompressor(path)
    try:
        file = io.FileIO(path, opener=None if once else open_checked)
    except SpecialFileError:
        raise CorpusError(
            f"{path}: a pipe or a device can be read only once, but training reads its text "
            "several times; save it in a file"
        ) from None
    except FileNotFoundError:
        raise CorpusError(
            f"{path}: there is no such file; relative paths start from the directory that the "
            f"command is run in, here {Path.cwd()}"
        ) from None
    except IsADirectoryError:
        raise CorpusError(f"{path}: this is a directory; give the path of a text file") from None
    except OSError as error:
        raise _unreadable(path, error) from error
    raw = _Plain(path, file) if new_member is None else _Compressed(path, file, new_member)
    return io.BufferedReader(raw, _CHUNK_BYTES)


def compressor(path: Path) -> Callable[[bytes], bytes]:
    """Return the function that makes a whole member of bytes; for plain text it changes nothing."""
    match path.suffix:
        case ".gz":
            return partial(gzip.compress, mtime=0)  # so that the same text is the same bytes
        case ".xz":
            return lzma.compress
        case ".zst":
            zstd = _zstd(path)
            # As the zstd program does; the library alone would leave the checksum out.
            return partial(zstd.compress, options={zstd.CompressionParameter.checksum_flag: 1})
    return bytes


def is_compressed(path: Path) -> bool:
    """Return whether the ending of ``path`` is that of a compressed file."""
    return path.suffix in _FORMATS


def text_writer(file: io.FileIO, path: Path) -> TextIO:
    """Return a writer of UTF-8 into ``file``, compressed as the ending of ``path`` says."""
    size = _MEMBER_BYTES if is_compressed(path) else io.DEFAULT_BUFFER_SIZE
    members = io.BufferedWriter(_Members(file, compressor(path)), size)
    return io.TextIOWrapper(members, encoding="utf-8", newline="")


def write_text(path: Path, text: str, is_named: bool = False) -> None:
    """Write UTF-8 text whole, with line ends as they are, compressed if the name ends so.

    ``is_named`` as for ``whole_file``.
    """
    compress = compressor(path)
    with whole_file(path, is_named) as temporary:
        temporary.write_bytes(compress(text.encode()))


def compressed_ending(data: bytes) -> str | None:
    """Return the ending that a file of these first bytes should have; None: it is plain."""
    return next((ending for ending, magic in _MAGIC.items() if data.startswith(magic)), None)


def _unreadable(path: Path, error: OSError) -> CorpusError:
    return CorpusError(
        f"{path}: cannot be read ({error.strerror}); check the path and its permissions"
    )


def _decompressor(path: Path) -> Callable[[], Any] | None:
    match path.suffix:
        case ".gz":
            return _GzipMember
        case ".xz":
            return lzma.LZMADecompressor
        case ".zst":
            zstd = _zstd(path)
            # Windows of up to 2 GiB, as `zstd --long=31` makes them.
            options = {zstd.DecompressionParameter.window_log_max: 31}
            return partial(zstd.ZstdDecompressor, options=options)
    return None


def _zstd(path: Path) -> Any:
    try:
        return import_module(
            "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
        )
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{path}: .zst needs the package backports.zstd, which is not installed; "
            "pip install backports.zstd"
        ) from error


class _Plain(io.RawIOBase):
    """The bytes of a file, whose errors are ours and name it."""

    def __init__(self, path: Path, file: io.FileIO) -> None:
        self._path = path
        self._file = file

    def readable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._file.isatty()

    def readinto(self, buffer: Any) -> int:
        data = self._read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _read(self, max_bytes: int) -> bytes:
        try:
            return self._file.read(max_bytes) or b""
        except OSError as error:
            raise _unreadable(self._path, error) from error

    def close(self) -> None:
        self._file.close()
        super().close()


class _Compressed(_Plain):
    """The bytes in a file's members, one after another.

    Python's own readers take what follows a member and is none for nothing, in xz and zstd.
    """

    def __init__(self, path: Path, file: io.FileIO, new_member: Callable[[], Any]) -> None:
        super().__init__(path, file)
        self._new_member = new_member
        self._member: Any = None
        self._waiting = b""
        self._is_empty = True

    def _read(self, max_bytes: int) -> bytes:
        data = b""
        while not data:
            if self._member is None and not self._begin_member():
                return b""
            compressed, self._waiting = self._waiting, b""
            ended = False
            if not compressed and self._member.needs_input:
                compressed = super()._read(_CHUNK_BYTES)
                ended = not compressed
            try:
                data = self._member.decompress(compressed, max_bytes)
            except Exception as error:  # each library has its own
                raise self._damage_error(str(error)) from error
            if self._member.eof:
                self._waiting, self._member = self._member.unused_data, None
            elif ended and not data:
                raise self._damage_error("it ends too early")
        return data

    def _begin_member(self) -> bool:
        """Begin the next member; return False if there is none. Zeros before it are padding."""
        waiting = self._waiting.lstrip(b"\0")
        while not waiting and (data := super()._read(_CHUNK_BYTES)):
            waiting = data.lstrip(b"\0")
        self._waiting = waiting
        if waiting:
            self._member = self._new_member()
            self._is_empty = False
        elif self._is_empty:
            raise self._damage_error("it is empty")
        return bool(waiting)

    def _damage_error(self, reason: str) -> CorpusError:
        ending = self._path.suffix
        return CorpusError(
            f"{self._path}: damaged or cut-off {_FORMATS[ending]} file ({reason}); get it anew, or "
            f"take {ending} off its name if it is plain text"
        )


class _GzipMember:
    """zlib's decompressor with the methods that those of lzma and zstd have."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


class _Members(io.RawIOBase):
    """A file of which each write makes a member."""

    def __init__(self, file: io.FileIO, compress: Callable[[bytes], bytes]) -> None:
        self._file = file
        self._compress = compress
        self._is_empty = True

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._file.isatty()

    def write(self, data: Any) -> int:
        compressed = memoryview(self._compress(bytes(data)))
        self._is_empty = False
        while compressed:
            compressed = compressed[self._file.write(compressed) :]
        return len(data)

    def close(self) -> None:
        if not self.closed:
            try:
                if self._is_empty:
                    self.write(b"")
            finally:
                self._file.close()
        super().close()
