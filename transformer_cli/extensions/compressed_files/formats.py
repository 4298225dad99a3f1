"""Reads and writes compressed files: gzip, xz and Zstandard, each with its own library."""

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from transformer_cli.base.errors import CorpusError, MissingExtraError
from transformer_cli.base.text_files import Reader

_CHUNK_BYTES = 1 << 17
_MEMBER_BYTES = 1 << 20


@dataclass(frozen=True)
class Format:
    """A format of compressed files; see ``Compression`` in base/text_files.py for its methods."""

    name: str
    load_library: Callable[[Path], tuple[Callable[[bytes], bytes], Callable[[], Any]]]
    """Takes a path for error messages. Returns a function that compresses bytes into one member (a
    complete compressed stream), and a function that creates a decompressor for one member."""

    def compressor(self, path: Path) -> Callable[[bytes], bytes]:
        return self.load_library(path)[0]

    def decompress(self, path: Path, file: io.RawIOBase) -> io.RawIOBase:
        chunks = iter(partial(file.read, _CHUNK_BYTES), b"")
        return _Chunks(file, self._decompress(path, chunks, self.load_library(path)[1]))

    def create(self, path: Path, named: Path) -> BinaryIO:
        return io.BufferedWriter(_Members(path, self.compressor(named)), _MEMBER_BYTES)

    def _decompress(
        self, path: Path, chunks: Iterator[bytes], new_member: Callable[[], Any]
    ) -> Iterator[bytes]:
        """Yield the decompressed bytes of all members of a file, in chunks of limited size.

        Python's readers for xz and zstd are not used, as they ignore invalid data after a member.
        """
        data, is_empty = b"", True
        while True:
            while not (data := data.lstrip(b"\0")):  # zeros between members are padding
                if not (data := next(chunks, b"")):
                    if is_empty:
                        raise self._damage_error(path, "it is empty")
                    return
            member, is_empty, has_ended = new_member(), False, False
            while not member.eof:
                try:
                    text = member.decompress(data, _CHUNK_BYTES)
                except Exception as error:  # each library has its own errors
                    raise self._damage_error(path, str(error)) from error
                if has_ended and not text and not member.eof:
                    raise self._damage_error(path, "it ends too early")
                yield text
                # zlib returns the data it has not read yet, and the others keep it.
                data = getattr(member, "unconsumed_tail", b"")
                if not data and getattr(member, "needs_input", True) and not member.eof:
                    data = next(chunks, b"")
                    has_ended = not data
            data = member.unused_data

    def _damage_error(self, path: Path, reason: str) -> CorpusError:
        return CorpusError(
            f"{path}: damaged or cut-off {self.name} file ({reason}); get it again, or "
            f"remove {path.suffix} from its name if it is plain text"
        )


def _load_zlib(path: Path) -> tuple[Callable[[bytes], bytes], Callable[[], Any]]:
    # Store no time, so that the same text gives the same bytes.
    return partial(gzip.compress, mtime=0), partial(zlib.decompressobj, wbits=31)


def _load_lzma(path: Path) -> tuple[Callable[[bytes], bytes], Callable[[], Any]]:
    try:
        lzma: Any = import_module("lzma")
    except ModuleNotFoundError as error:  # Python may be built without it
        raise MissingExtraError(
            f"{path}: .xz needs Python's module lzma, which this Python lacks; decompress "
            "the file, or use another Python"
        ) from error
    return lzma.compress, lzma.LZMADecompressor


def _load_zstd(path: Path) -> tuple[Callable[[bytes], bytes], Callable[[], Any]]:
    try:
        zstd: Any = import_module(
            "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
        )
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{path}: .zst needs the package backports.zstd, which is not installed; "
            "pip install backports.zstd"
        ) from error
    # Like the zstd program; the library alone would omit the checksum.
    compress = partial(zstd.compress, options={zstd.CompressionParameter.checksum_flag: 1})
    # Windows of up to 2 GiB, as in files from `zstd --long=31`.
    windows = {zstd.DecompressionParameter.window_log_max: 31}
    return compress, partial(zstd.ZstdDecompressor, options=windows)


GZIP = Format("gzip", _load_zlib)
XZ = Format("xz", _load_lzma)
ZSTD = Format("zstd", _load_zstd)


class _Chunks(Reader):
    """A readable file whose bytes come from ``chunks``, an iterator that reads ``file``."""

    def __init__(self, file: io.RawIOBase, chunks: Iterator[bytes]) -> None:
        super().__init__(file, nullcontext)
        self._chunks = filter(None, chunks)
        self._left = memoryview(b"")

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            self._left = memoryview(next(self._chunks, b""))
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


class _Members(io.FileIO):
    """A writable file that compresses the data of each write into a stream of its own."""

    def __init__(self, path: Path, compress: Callable[[bytes], bytes]) -> None:
        super().__init__(path, "w")
        self._compress = compress
        self._is_empty = True

    def write(self, data: Any) -> int:
        compressed = memoryview(self._compress(bytes(data)))
        self._is_empty = False
        while compressed:
            compressed = compressed[super().write(compressed) :]
        return len(data)

    def close(self) -> None:
        try:
            if not self.closed and self._is_empty:
                self.write(b"")
        finally:
            super().close()
