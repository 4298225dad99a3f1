"""Text in files, objects and archives, packed or not: a name's ending, .gz, .xz or .zst, says how.

All formats allow several compressed members one after another. What is written here ends a
member at each flush, so that a file may be cut at a member's end and continued.

A path may continue into a zip archive, as in a.zip/deu.txt, which is read in place. Nothing is ever
written to where a name in it points.
"""

import codecs
import gzip
import io
import shutil
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from importlib import import_module
from itertools import chain
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, TYPE_CHECKING, Any, TextIO

from transformer_cli.base.errors import (
    CorpusError,
    MissingExtraError,
    MissingTextError,
    did_you_mean,
    size,
)
from transformer_cli.base.files import SpecialFileError, open_checked, open_regular
from transformer_cli.base.writing import whole_file
from transformer_cli.extensions.stores.objects import ObjectPath, compile_wildcards, open_object

if TYPE_CHECKING:
    from zipfile import ZipFile, ZipInfo

_FORMATS = {".gz": "gzip", ".xz": "xz", ".zst": "zstd"}
_MAGIC = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\0", ".zst": b"\x28\xb5\x2f\xfd", ".zip": b"PK\3\4"}
_CHUNK_BYTES = 1 << 17
_MEMBER_BYTES = 1 << 20
# Text is packed to a third or a tenth; what unpacks to more than this many times its archive, and
# to gigabytes, is a bomb.
_MAX_RATIO = 200
_ALWAYS_ALLOWED = 1 << 30
_ENCRYPTED = 1
_SHOWN = 5  # names of an archive's files


def open_text(
    path: Path, once: bool = False, start: int = 0, encoding: str | None = None
) -> io.BufferedReader:
    """Open a file or an object of text to read its bytes, decompressed as its name's ending says.

    If a user has named it to be read ``once``, a pipe or a device will do. CorpusError may be
    raised now or later, as it is read and found damaged or cut off. Of plain text, bytes before
    ``start`` are left out. Text in another ``encoding`` than UTF-8 is converted to it.
    """
    codec = _codec(path)
    if in_archive := split_archive(path):
        file: IO[bytes] | io.FileIO = open_member(*in_archive)
        chunks = read_chunks(path, file, _CHUNK_BYTES)
    else:
        file = open_object(path) if isinstance(path, ObjectPath) else _open_file(path, once)
        if start:
            file.seek(start)
        chunks = _read(path, file)
    if codec is not None:
        chunks = _decompress(path, chunks, codec[1])
    if encoding is not None:
        chunks = _to_utf8(chunks, str(path), encoding)
    return io.BufferedReader(_Chunks(file, chunks), _CHUNK_BYTES)


def as_utf8(file: Any, name: str, encoding: str) -> io.BufferedReader:
    """Return a reader of the text of an open file, such as a pipe, converted to UTF-8."""
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


def _open_file(path: Path, once: bool) -> io.FileIO:
    try:
        return io.FileIO(path, opener=None if once else open_checked)
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


def is_packed(path: Path) -> bool:
    """Return whether a file is compressed, or lies in an archive."""
    return is_compressed(path) or split_archive(path) is not None


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


def _read(path: Path, file: IO[bytes] | io.FileIO) -> Iterator[bytes]:
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
        f"{path}: damaged or cut-off {_FORMATS[path.suffix]} file ({reason}); get it anew, or "
        f"take {path.suffix} off its name if it is plain text"
    )


class _Chunks(io.RawIOBase):
    """A file whose bytes come in chunks."""

    def __init__(self, file: IO[bytes] | io.FileIO, chunks: Iterator[bytes]) -> None:
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


# --- zip archives ---------------------------------------------------------------------------------


def split_archive(path: Path) -> tuple[Path, str] | None:
    """Return the zip archive that a path goes through, and the name in it; None: there is none.

    The name of the archive itself is ''.
    """
    if ".zip" not in str(path).lower() or isinstance(path, ObjectPath):
        return None
    for place in reversed((path, *path.parents)):
        with suppress(OSError):
            if place.suffix.lower() == ".zip" and place.is_file():
                return place, "" if path == place else path.relative_to(place).as_posix()
    return None


def open_member(archive: Path, name: str) -> IO[bytes]:
    """Open a file in an archive for ``read_chunks``; raise CorpusError if it cannot be read."""
    info = _find_member(archive, name)
    with _naming_errors(archive / name):
        return _open_archive(archive)[0].open(info)


def read_chunks(path: Path, file: IO[bytes], chunk_bytes: int) -> Iterator[bytes]:
    """Yield what is in an open file of an archive; raise CorpusError if that is damaged."""
    with _naming_errors(path):
        while data := file.read(chunk_bytes):
            yield data


def match_members(archive: Path, pattern: str) -> tuple[Path, ...]:
    """Return the files in an archive that match a pattern with * and ?, sorted.

    Raises:
        CorpusError: there are none, or they cannot be read.
    """
    matching = compile_wildcards(pattern)
    _, infos = _open_archive(archive)
    found = {
        name: info for name, info in infos.items() if matching.fullmatch(name) and not info.is_dir()
    }
    if not found:
        raise CorpusError(f"{archive / pattern}: no file in the archive matches; {_known(infos)}")
    _check_size(archive, found.values())
    return tuple(archive / name for name in sorted(found))


def member_bytes(path: Path) -> int:
    """Return the bytes that a file in an archive takes there; 0: it cannot be read."""
    with suppress(CorpusError):
        if found := split_archive(path):
            return _find_member(*found).compress_size
    return 0


def check_room(path: Path, directory: Path) -> None:
    """Raise CorpusError if ``path`` is in an archive, and a copy of it too large for a disk."""
    if found := split_archive(path):
        needed, free = _find_member(*found).file_size, shutil.disk_usage(directory).free
        if needed > free:
            problem = f"unpacks to {size(needed)}, where the disk of {directory} has {size(free)}"
            raise CorpusError(f"{path}: {problem} free; free some, or write elsewhere")


def _open_archive(archive: Path) -> tuple["ZipFile", dict[str, "ZipInfo"]]:
    """Return an open archive and what is in it, by name; CorpusError: it cannot be read."""
    with _naming_errors(archive):
        stat = archive.stat()
        return _open_once(archive, (stat.st_mtime_ns, stat.st_size, stat.st_ino))


@lru_cache(maxsize=4)
def _open_once(archive: Path, _state: tuple[int, ...]) -> tuple["ZipFile", dict[str, "ZipInfo"]]:
    # Its list is read once, as there may be thousands of files, each of which is opened in turn.
    from zipfile import ZipFile

    opened = ZipFile(open_regular(archive))
    infos: dict[str, ZipInfo] = {}
    for info in opened.infolist():
        name = info.filename
        # As a path has it: './de.txt' in an archive is named de.txt.
        infos[PurePosixPath(name).as_posix() + "/" * info.is_dir()] = info
        path = PureWindowsPath(name)  # for which / and \ separate, so that it is safe anywhere
        if path.anchor or ".." in path.parts:
            problem = f"has a file '{name[:80]}', which points outside it"
            raise CorpusError(f"{archive}: {problem}; get the archive from its publisher")
    return opened, infos


def _find_member(archive: Path, name: str) -> "ZipInfo":
    path, (_, infos) = archive / name, _open_archive(archive)
    info = infos.get(name)
    if info is None:
        if any(other.startswith(f"{name}/") for other in infos):
            raise CorpusError(f"{path}: is a directory in the archive; name its files, as {path}/*")
        problem = "there is no such file in the archive" if name else "is an archive"
        advice = did_you_mean(name, infos) or _known(infos)
        raise MissingTextError(f"{path}: {problem}; {advice}")
    if info.flag_bits & _ENCRYPTED:
        raise CorpusError(f"{path}: is encrypted; unpack it, and name what comes out")
    _check_size(archive, [info])
    return info


def _check_size(archive: Path, infos: Iterable["ZipInfo"]) -> None:
    """Raise CorpusError if files unpack to more than any text would."""
    packed = archive.stat().st_size
    unpacked = sum(info.file_size for info in infos)
    if unpacked > max(_ALWAYS_ALLOWED, _MAX_RATIO * packed):
        problem = f"would unpack from {size(packed)} to {size(unpacked)}, which no text does"
        raise CorpusError(f"{archive}: {problem}; if it is right, unpack it by hand")


def _known(infos: Iterable[str]) -> str:
    """Return the words for what there is in an archive."""
    names = [f"'{name[:80]}'" for name in infos if not name.endswith("/")]
    more = ", …" if len(names) > _SHOWN else ""
    return f"name a file in it: {', '.join(names[:_SHOWN])}{more}" if names else "it is empty"


@contextmanager
def _naming_errors(path: Path) -> Iterator[None]:
    """Turn the errors of zipfile and of what decompresses for it into one that names the file."""
    try:
        yield
    except CorpusError:
        raise
    except Exception as error:  # zipfile's, and those of each method of compression
        if isinstance(error, OSError) and error.strerror:
            problem = f"cannot be read ({error.strerror}); check its permissions"
        else:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            problem = f"damaged or cut-off archive, or one of an unknown kind ({reason}); delete it"
            problem += " and fetch it again, or unpack it by hand"
        raise CorpusError(f"{path}: {problem}") from error
