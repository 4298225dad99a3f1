"""Text in files and other places, compressed as the ending .gz, .xz or .zst of a name says.

All formats allow several compressed members one after another. What is written here ends a
member at each flush, so that a file may be cut at a member's end and continued.
"""

import codecs
import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import IO, Any, TextIO

from transformer_cli.base.errors import CorpusError, MissingExtraError, MissingTextError
from transformer_cli.base.locations import SpecialFileError, is_local, locate
from transformer_cli.base.writing import whole_file

_FORMATS = {".gz": "gzip", ".xz": "xz", ".zst": "zstd"}
_MAGIC = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\0", ".zst": b"\x28\xb5\x2f\xfd", ".zip": b"PK\3\4"}
_CHUNK_BYTES = 1 << 17
_MEMBER_BYTES = 1 << 20


def open_text(path: Path, once: bool = False, encoding: str | None = None) -> io.BufferedReader:
    """Open text to read its bytes, decompressed as its name's ending says.

    If a user has named it to be read ``once``, a pipe or a device will do. CorpusError may be
    raised now or later, as it is read and found damaged or cut off. Text in another ``encoding``
    than UTF-8 is recoded.
    """
    codec = _codec(path)
    file = _open(path, once)
    chunks = _read(path, file)
    if codec is not None:
        chunks = _decompress(path, chunks, codec[1])
    if encoding is not None:
        chunks = _to_utf8(chunks, str(path), encoding)
    return io.BufferedReader(_Chunks(file, chunks), _CHUNK_BYTES)


def as_utf8(file: Any, name: str, encoding: str) -> io.BufferedReader:
    """Return a reader of the text of an open file, such as a pipe, as UTF-8."""
    chunks = iter(partial(file.read1, _CHUNK_BYTES), b"")
    return io.BufferedReader(_Chunks(file, _to_utf8(chunks, name, encoding)), _CHUNK_BYTES)


def _to_utf8(chunks: Iterable[bytes], name: str, encoding: str) -> Iterator[bytes]:
    decoder, line = codecs.getincrementaldecoder(encoding)(), 1
    for chunk in chain(chunks, (b"",)):
        try:
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            before = error.object[: error.start]
            line += before.decode(encoding, "ignore").count("\n")
            raise CorpusError(
                f"{name}:{line}: not {encoding} (byte 0x{error.object[error.start]:02x}); set "
                "the file's true encoding, or convert it to UTF-8"
            ) from None
        line += text.count("\n")
        yield text.encode()


def _open(path: Path, once: bool) -> IO[bytes]:
    try:
        return locate(path).open(path, once)
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
        raise _unreadable(path, error) from error


def compressor(path: Path) -> Callable[[bytes], bytes]:
    """Return the function that makes a whole member of bytes; for plain text it changes nothing."""
    codec = _codec(path)
    return bytes if codec is None else codec[0]


def _codec(path: Path) -> tuple[Callable[[bytes], bytes], Callable[[], Any]] | None:
    """Return what makes a member of bytes, and what makes a member's decompressor."""
    match path.suffix:
        case ".gz":
            # No time in it, so that the same text is the same bytes.
            return partial(gzip.compress, mtime=0), partial(zlib.decompressobj, wbits=31)
        case ".xz":
            try:
                lzma: Any = import_module("lzma")
            except ModuleNotFoundError as error:  # Python may be built without it
                raise MissingExtraError(
                    f"{path}: .xz needs Python's module lzma, which this Python lacks; decompress "
                    "the file, or use another Python"
                ) from error
            return lzma.compress, lzma.LZMADecompressor
        case ".zst":
            try:
                zstd: Any = import_module(
                    "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
                )
            except ModuleNotFoundError as error:
                raise MissingExtraError(
                    f"{path}: .zst needs the package backports.zstd, which is not installed; "
                    "pip install backports.zstd"
                ) from error
            # As the zstd program does; the library alone would leave the checksum out.
            compress = partial(zstd.compress, options={zstd.CompressionParameter.checksum_flag: 1})
            # Windows of up to 2 GiB, as `zstd --long=31` makes them.
            windows = {zstd.DecompressionParameter.window_log_max: 31}
            return compress, partial(zstd.ZstdDecompressor, options=windows)
    return None


def is_compressed(path: Path) -> bool:
    """Return whether the ending of ``path`` is that of a compressed file."""
    return path.suffix in _FORMATS


def is_plain(path: Path) -> bool:
    """Return whether a path is that of a file of this machine which is not compressed."""
    return not is_compressed(path) and is_local(path)


def text_writer(target: Path, path: Path) -> TextIO:
    """Open ``target`` to write UTF-8 into it, compressed as the ending of ``path`` says."""
    size = _MEMBER_BYTES if is_compressed(path) else io.DEFAULT_BUFFER_SIZE
    members = io.BufferedWriter(_Members(target, compressor(path)), size)
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


def _read(path: Path, file: IO[bytes]) -> Iterator[bytes]:
    try:
        while data := file.read(_CHUNK_BYTES):
            yield data
    except OSError as error:
        raise _unreadable(path, error) from error


def _decompress(
    path: Path, chunks: Iterator[bytes], new_member: Callable[[], Any]
) -> Iterator[bytes]:
    """Yield the bytes in a file's members, one after another, a bounded number at a time.

    Python's own readers take what follows a member and is none for nothing, in xz and zstd.
    """
    data, is_empty = b"", True
    while True:
        while not (data := data.lstrip(b"\0")):  # zeros between members are padding
            if not (data := next(chunks, b"")):
                if is_empty:
                    raise _damage_error(path, "it is empty")
                return
        member, is_empty, has_ended = new_member(), False, False
        while not member.eof:
            try:
                text = member.decompress(data, _CHUNK_BYTES)
            except Exception as error:  # each library has its own
                raise _damage_error(path, str(error)) from error
            if has_ended and not text and not member.eof:
                raise _damage_error(path, "it ends too early")
            yield text
            # zlib returns what it has not read yet, and the others keep it.
            data = getattr(member, "unconsumed_tail", b"")
            if not data and getattr(member, "needs_input", True) and not member.eof:
                data = next(chunks, b"")
                has_ended = not data
        data = member.unused_data


def _damage_error(path: Path, reason: str) -> CorpusError:
    return CorpusError(
        f"{path}: damaged or cut-off {_FORMATS[path.suffix]} file ({reason}); get it again, or "
        f"take {path.suffix} off its name if it is plain text"
    )


class _Chunks(io.RawIOBase):
    """A file whose bytes come in chunks."""

    def __init__(self, file: IO[bytes], chunks: Iterator[bytes]) -> None:
        self._file = file
        self._chunks = chunks
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._file.isatty()

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._left = memoryview(chunk)
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size

    def close(self) -> None:
        self._file.close()
        super().close()


class _Members(io.FileIO):
    """A file of which each write makes a member."""

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


# --- encodings ------------------------------------------------------------------------------------

# Those that a file may declare, or a user may name. All of them read ASCII as ASCII, one character
# after another, in linear time. Python has others that do not: punycode takes quadratic time, idna
# raises errors of its own, and cp037 is EBCDIC.
_SINGLE_BYTE = (
    *("ascii", "koi8-r", "koi8-u", "koi8-t", "kz1048", "ptcp154", "tis-620"),
    *(f"iso8859-{part}" for part in range(1, 17) if part != 12),
    *(f"cp{page}" for page in (437, 720, 737, 775, 850, 852, 855, 857, 858, *range(860, 864))),
    *(f"cp{page}" for page in (865, 866, 869, 874, 1125, *range(1250, 1259))),
    *(f"mac-{name}" for name in ("cyrillic", "greek", "iceland", "latin2", "roman", "turkish")),
)
_MULTIBYTE = (
    *("utf-8", "big5", "big5hkscs", "gb2312", "gbk", "gb18030"),
    *("euc_jp", "euc_kr", "shift_jis", "cp932", "cp949", "cp950"),
)
ENCODINGS = frozenset((*_SINGLE_BYTE, *_MULTIBYTE))
"""By Python's names. UTF-16 is not one of them: a text in it cannot declare it in ASCII."""
_UTF_16 = frozenset({"utf-16", "utf-16-le", "utf-16-be"})


def find_encoding(given: str, utf16: bool = False) -> str | None:
    """Return Python's name of an encoding; None: it cannot be used.

    ``utf16`` allows UTF-16, which users may name, and XML may declare. Readers drop a byte order
    mark, so 'utf-8-sig' is UTF-8.
    """
    try:
        name = codecs.lookup(given).name.removesuffix("-sig")
    except (LookupError, ValueError):
        return None
    return name if name in ENCODINGS or (utf16 and name in _UTF_16) else None
