"""Read files inside zip archives, without unpacking them, from paths such as a.zip/deu.txt.

Nothing is ever extracted to a path that an archive names.
"""

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, BinaryIO

from transformer_cli.base.errors import CorpusError, MissingTextError, did_you_mean
from transformer_cli.base.locations import LOCAL, Location, open_regular
from transformer_cli.base.messages import size
from transformer_cli.extensions.stores.objects import SeekableReader, is_match

if TYPE_CHECKING:
    from zipfile import ZipFile, ZipInfo

# Text is packed to a third or a tenth. An archive that unpacks to more than this many times its
# size, and to gigabytes, is a zip bomb.
_MAX_RATIO = 200
_ALWAYS_ALLOWED = 1 << 30
_ENCRYPTED = 1
_SHOWN = 5  # names of an archive's files
_READ_BYTES = 1 << 17


class ZipArchives(Location):
    """The ``Location`` of files inside zip archives on this machine."""

    def open(self, path: Path, once: bool = False) -> BinaryIO:
        archive, name = _split(path)
        info = _find_member(archive, name)
        with _naming_errors(path):
            file = _open_archive(archive)[0].open(info)
        return io.BufferedReader(SeekableReader(file, partial(_naming_errors, path)), _READ_BYTES)

    def sizes(self, paths: Sequence[Path]) -> list[int]:
        """Return each file's compressed size in its archive, or 0 if it cannot be read."""
        sizes = [0] * len(paths)
        for place, path in enumerate(paths):
            with suppress(CorpusError):
                sizes[place] = _find_member(*_split(path)).compress_size
        return sizes

    def versions(self, paths: Sequence[Path]) -> list[str | None]:
        return LOCAL.versions([_split(path)[0] for path in paths])

    def find(self, path: Path, sha256: str | None = None) -> tuple[Path, ...]:
        if not any(wildcard in str(path) for wildcard in "*?"):
            return (path,)
        archive, pattern = _split(path)
        _, infos = _open_archive(archive)
        found = {
            name: info
            for name, info in infos.items()
            if is_match(name, pattern) and not info.is_dir()
        }
        if not found:
            raise CorpusError(f"{path}: no file in the archive matches; {_known(infos)}")
        _check_size(archive, found.values())
        return tuple(archive / name for name in sorted(found))


ZIP = ZipArchives()


def find_archive(path: Path) -> Path | None:
    """Return the zip archive that ``path`` names or leads into; None if there is none."""
    for place in reversed((path, *path.parents)):
        with suppress(OSError):
            if place.suffix.lower() == ".zip" and place.is_file():
                return place
    return None


def _split(path: Path) -> tuple[Path, str]:
    """Split a path into an archive and the name of a file in it; '' for the archive itself."""
    archive = find_archive(path)
    if archive is None:
        raise MissingTextError(f"{path}: the archive no longer exists")
    return archive, "" if path == archive else path.relative_to(archive).as_posix()


def _open_archive(archive: Path) -> tuple["ZipFile", dict[str, "ZipInfo"]]:
    """Return an open archive and its entries, keyed by name; raise CorpusError if it is damaged."""
    with _naming_errors(archive):
        stat = archive.stat()
        return _open_once(archive, (stat.st_mtime_ns, stat.st_size, stat.st_ino))


@lru_cache(maxsize=4)
def _open_once(archive: Path, _state: tuple[int, ...]) -> tuple["ZipFile", dict[str, "ZipInfo"]]:
    # Read the list once, because there may be thousands of files, which are opened one by one.
    from zipfile import ZipFile

    opened = ZipFile(open_regular(archive))
    infos: dict[str, ZipInfo] = {}
    for info in opened.infolist():
        name = info.filename
        # Use the names that paths have: './de.txt' in an archive becomes de.txt.
        infos[PurePosixPath(name).as_posix() + "/" * info.is_dir()] = info
        path = PureWindowsPath(name)  # splits at / and \, so the check is safe everywhere
        if path.anchor or ".." in path.parts:
            problem = f"has a file '{name[:80]}', which points outside it"
            raise CorpusError(f"{archive}: {problem}; get the archive from its publisher")
    return opened, infos


def _find_member(archive: Path, name: str) -> "ZipInfo":
    path, (_, infos) = archive / name, _open_archive(archive)
    info = infos.get(name)
    if info is None:
        if any(other.startswith(f"{name}/") for other in infos):
            raise CorpusError(f"{path}: is a directory in the archive; name its files: {path}/*")
        problem = "there is no such file in the archive" if name else "is an archive"
        advice = did_you_mean(name, infos) or _known(infos)
        raise MissingTextError(f"{path}: {problem}; {advice}")
    if info.flag_bits & _ENCRYPTED:
        raise CorpusError(f"{path}: is encrypted; unpack it, and name the unpacked file")
    _check_size(archive, [info])
    return info


def _check_size(archive: Path, infos: Iterable["ZipInfo"]) -> None:
    """Raise CorpusError if files would unpack to a larger size than any text does."""
    packed = archive.stat().st_size
    unpacked = sum(info.file_size for info in infos)
    if unpacked > max(_ALWAYS_ALLOWED, _MAX_RATIO * packed):
        problem = f"would unpack from {size(packed)} to {size(unpacked)}, which no text does"
        raise CorpusError(f"{archive}: {problem}; if the size is right, unpack it by hand")


def _known(infos: Iterable[str]) -> str:
    """Return advice that lists the first files of an archive."""
    names = [f"'{name[:80]}'" for name in infos if not name.endswith("/")]
    more = ", …" if len(names) > _SHOWN else ""
    return f"name a file in it: {', '.join(names[:_SHOWN])}{more}" if names else "it is empty"


@contextmanager
def _naming_errors(path: Path) -> Iterator[None]:
    """Turn errors of zipfile and its decompressors into a CorpusError that names the file."""
    try:
        yield
    except CorpusError:
        raise
    except Exception as error:  # zipfile and each compression method raise their own types
        if isinstance(error, OSError) and error.strerror:
            problem = f"cannot be read ({error.strerror}); check its permissions"
        else:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            problem = f"damaged or incomplete archive, or of an unknown kind ({reason}); delete it"
            problem += " and fetch it again, or unpack it by hand"
        raise CorpusError(f"{path}: {problem}") from error
