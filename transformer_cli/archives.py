"""Files in zip archives, read without unpacking: paths continue into one, as in a.zip/deu.txt.

Nothing is ever written to where a name in an archive points.
"""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path, PureWindowsPath
from typing import IO, TYPE_CHECKING

from transformer_cli.errors import CorpusError, MissingTextError, did_you_mean, size
from transformer_cli.files import open_regular
from transformer_cli.objects import ObjectPath, compile_wildcards

if TYPE_CHECKING:
    from zipfile import ZipFile, ZipInfo

# Text is packed to a third or a tenth; what unpacks to more than this many times its archive, and
# to gigabytes, is a bomb.
_MAX_RATIO = 200
_ALWAYS_ALLOWED = 1 << 30
_ENCRYPTED = 1
_SHOWN = 5


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
    info = _find(archive, name)
    with _naming_errors(archive / name):
        return _open(archive)[0].open(info)


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
    _, infos = _open(archive)
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
            return _find(*found).compress_size
    return 0


def check_room(path: Path, directory: Path) -> None:
    """Raise CorpusError if ``path`` is in an archive, and a copy of it too large for a disk."""
    if found := split_archive(path):
        needed, free = _find(*found).file_size, shutil.disk_usage(directory).free
        if needed > free:
            problem = f"unpacks to {size(needed)}, where the disk of {directory} has {size(free)}"
            raise CorpusError(f"{path}: {problem} free; free some, or write elsewhere")


def _open(archive: Path) -> tuple["ZipFile", dict[str, "ZipInfo"]]:
    """Return an open archive and what is in it, by name; CorpusError: it cannot be read."""
    with _naming_errors(archive):
        stat = archive.stat()
        return _open_once(archive, (stat.st_mtime_ns, stat.st_size, stat.st_ino))


@lru_cache(maxsize=4)
def _open_once(archive: Path, _state: tuple[int, ...]) -> tuple["ZipFile", dict[str, "ZipInfo"]]:
    # Its list is read once, as there may be thousands of files, each of which is opened in turn.
    from zipfile import ZipFile

    opened = ZipFile(open_regular(archive))
    infos = {info.filename: info for info in opened.infolist()}
    for name in infos:
        path = PureWindowsPath(name)  # for which / and \ separate, so that it is safe anywhere
        if path.anchor or ".." in path.parts:
            problem = f"has a file '{name[:80]}', which points outside it"
            raise CorpusError(f"{archive}: {problem}; get the archive from its publisher")
    return opened, infos


def _find(archive: Path, name: str) -> "ZipInfo":
    path, (_, infos) = archive / name, _open(archive)
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
