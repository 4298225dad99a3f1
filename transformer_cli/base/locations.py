"""Where bytes lie: in files of this machine, or in any other place that an extension knows.

A path is a ``Path`` everywhere; that of a place elsewhere is a ``UrlPath``, or leads into a file
such as an archive. ``locate`` finds who reads and writes it: nothing else asks what a path is.
"""

import errno
import glob
import os
import re
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Literal, cast

from transformer_cli.base import registry
from transformer_cli.base.errors import CorpusError, MissingExtraError, UsageError, shorten_middle

_LIKE_ADDRESS = re.compile(r"@|:[/\\]|https?", re.IGNORECASE)
# File systems count time in steps, at most of two seconds.
_SETTLED_NS = 2_500_000_000


class UrlPath(type(Path())):  # type: ignore[misc]
    """The URL of bytes that are no file of this machine; ``text_path`` makes it.

    It can do what any path can do without a disk. Where a file is needed, it is an error for the
    user.
    """

    __slots__ = ()

    def __str__(self) -> str:
        scheme, *names = self.parts
        return f"{scheme}//{'/'.join(names)}"

    def __fspath__(self) -> str:
        raise UsageError(f"{self}: is an object in a store, where a file is needed; copy it to one")

    def absolute(self) -> "UrlPath":
        """Return the URL itself."""
        return self

    def resolve(self, strict: bool = False) -> "UrlPath":
        """Return the URL itself."""
        return self

    def is_dir(self) -> bool:
        """Return False: there are no directories but those of this machine."""
        return False


def is_url(path: Path) -> bool:
    """Return whether a path has a scheme, as ``s3://bucket/name`` has."""
    return isinstance(path, UrlPath)


def text_path(text: str) -> Path:
    """Return the path that a user has given; raise ValueError for a URL that must not be one."""
    if _LIKE_ADDRESS.search(text):
        for entry in registry.entries("address").values():
            entry.load()(text)
    return UrlPath(text) if "://" in text else Path(text)


def hide_credentials(text: str) -> str:
    """Return text without the secrets in its URLs, of which an extension knows the forms.

    The extension also provides a check of what ``text_path`` gets, which raises ValueError::

        provides = {"address": {"mine": {"load": "mine:check", "hide": "mine:hide"}}}
    """
    if _LIKE_ADDRESS.search(text):
        entries = registry.entries("address").values()
        for entry in entries:
            text = entry.load("hide")(text)
        if not entries:  # what any URL may have: a login, and something after its path
            text = re.sub(r"(?<=://)[^\s'/]*@", "…@", text)
            text = re.sub(r"(?<=://)([^\s'?#;]*[?#;]?)[^\s']*", _mark_end, text)
    return text


def _mark_end(address: re.Match[str]) -> str:
    return address[1] + "…" * address[1].endswith(("?", "#", ";"))


# --- the interface --------------------------------------------------------------------------------


class Location(ABC):
    """A kind of place where bytes lie; its methods take paths that lie there.

    An extension provides an instance, by the scheme of its URLs or ``*`` for all other schemes, or
    with the ending ``inside`` of the files that paths may lead into, their first bytes, and a
    function that returns such a file, or None::

        provides = {"location": {"s3": {"load": "objects:STORES"},
                                 "zip": {"load": "archives:ZIP", "find": "archives:find_archive",
                                         "inside": ".zip", "magic": b"PK"}}}

    What cannot be read raises CorpusError. Only files of this machine are written.
    """

    @abstractmethod
    def open(self, path: Path, once: bool = False) -> BinaryIO:
        """Open bytes to read them; ``once`` says that a pipe or a device will do."""

    @abstractmethod
    def versions(self, paths: Sequence[Path]) -> list[str | None]:
        """Return what changes whenever the bytes of a path do; None: it is not there.

        None also stands for a file that was changed a moment ago, so that another change might not
        show.
        """

    @abstractmethod
    def find(self, path: Path, sha256: str | None = None) -> tuple[Path, ...]:
        """Return what matches a path with the wildcards * and ?, sorted; CorpusError: nothing does.

        A path without wildcards is returned unseen. A place that cannot be read piece by piece
        returns files that it has fetched, whose sum must be ``sha256``.
        """

    def is_here(self, path: Path, sha256: str | None = None) -> bool:
        """Return whether ``find`` would fetch nothing."""
        return True

    def fetched_from(self, path: Path) -> str | None:
        """Return the URL of the file that ``find`` fetches for a path; None: it fetches none."""
        return None


class LocalFiles(Location):
    """The files of this machine."""

    def open(self, path: Path, once: bool = False) -> BinaryIO:
        """Open a file; raise what ``open_checked`` does, unless it is read ``once``."""
        if once:  # unbuffered, as what a pipe has now is wanted now
            return path.open("rb", buffering=0)
        return open_regular(path)

    def versions(self, paths: Sequence[Path]) -> list[str | None]:
        """Return size, times and inode of each file."""
        return list(map(self._version, paths))

    def _version(self, path: Path) -> str | None:
        try:
            status = path.stat()
        except OSError:
            return None
        # Also changed where a file is put in another's place, with its old time.
        changed = max(status.st_mtime_ns, status.st_ctime_ns)
        if not stat.S_ISREG(status.st_mode) or time.time_ns() - changed < _SETTLED_NS:
            return None
        return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"

    def find(self, path: Path, sha256: str | None = None) -> tuple[Path, ...]:
        """Return the files that match; a path that exists, or has no wildcards, is returned."""
        pattern = str(path)
        if not any(wildcard in pattern for wildcard in "*?") or path.exists():
            return (path,)
        names = glob.glob(pattern.replace("[", "[[]"))  # noqa: PTH207 - it may be absolute
        files = tuple(file for file in map(Path, sorted(names)) if not file.is_dir())
        if not files:
            raise CorpusError(
                f"{path}: no file matches; relative paths start from the directory that the "
                f"command is run in, here {Path.cwd()}"
            )
        return files


LOCAL = LocalFiles()


def locate(path: Path) -> Location:
    """Return the place where a path lies; MissingExtraError: nothing installed knows it."""
    location = _find_location(path)
    if location is None:
        problem = registry.describe_missing("kind of location", path.parts[0].removesuffix(":"))
        raise MissingExtraError(f"{shorten_middle(str(path), 200)}: {problem}")
    return location


def _find_location(path: Path) -> Location | None:
    if isinstance(path, UrlPath):
        scheme = path.parts[0].removesuffix(":")
        entry = registry.find("location", scheme) or registry.find("location", "*")
        return None if entry is None else cast(Location, entry.load())
    for entry in registry.entries("location").values():
        ending = entry.facts.get("inside")
        if ending and ending in str(path).lower() and entry.load("find")(path):
            return cast(Location, entry.load())
    return LOCAL


def is_local(path: Path) -> bool:
    """Return whether a path is that of a file of this machine, or of what could be one."""
    return _find_location(path) is LOCAL


def open_bytes(path: Path) -> BinaryIO:
    """Open a file, or what a URL names; one that paths lead into, such as an archive, is a file."""
    return locate(path).open(path) if is_url(path) else open_regular(path)


def find_files(path: Path, sha256: str | None = None) -> tuple[Path, ...]:
    """Return what a path names, fetched if need be; see ``Location.find``."""
    return locate(path).find(path, sha256)


def is_here(path: Path, sha256: str | None = None) -> bool:
    """Return whether ``find_files`` would fetch nothing; False where it cannot fetch."""
    location = _find_location(path)
    return location is not None and location.is_here(path, sha256)


def fetched_from(path: Path) -> str | None:
    """Return the URL of the file that ``find_files`` fetches for a path; None: it fetches none."""
    location = _find_location(path)
    return None if location is None else location.fetched_from(path)


def versions(paths: Sequence[Path]) -> list[str | None]:
    """Return what changes with the bytes of each path; see ``Location.versions``."""
    # Each place is asked once about all paths that lie there.
    found: dict[Path, str | None] = dict.fromkeys(paths)
    by_location: dict[Location, list[Path]] = {}
    for path in found:
        by_location.setdefault(locate(path), []).append(path)
    for location, those in by_location.items():
        found.update(zip(those, location.versions(those), strict=True))
    return [found[path] for path in paths]


# --- files that may be a stranger's ---------------------------------------------------------------


class SpecialFileError(OSError):
    """A pipe, a device or a socket where a file has to be."""


def open_checked(path: str, flags: int) -> int:
    """Open a regular file, as the opener of ``open``; do not wait for a pipe's other end.

    What is to be written to must be no link, and have no other name.
    """
    is_written = flags & (os.O_WRONLY | os.O_RDWR)
    flags |= getattr(os, "O_NONBLOCK", 0) | (is_written and getattr(os, "O_NOFOLLOW", 0))
    descriptor = os.open(path, flags, 0o666)
    # Of what was opened, which somebody may have replaced meanwhile.
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and not (is_written and status.st_nlink > 1):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if stat.S_ISREG(status.st_mode):
        raise OSError(errno.EMLINK, "has another name elsewhere; replace it by a copy", path)
    raise SpecialFileError(errno.EINVAL, "is a pipe or a device, not a file", path)


def open_regular(path: Path, mode: Literal["rb", "r+b", "ab", "a+b"] = "rb") -> BinaryIO:
    """Open a file that may be a stranger's; raise what ``open_checked`` does."""
    return open(path, mode, opener=open_checked)
