"""Read bytes from files on this machine or, through extensions, from URLs and archives.

Every path is a ``Path``. A URL is a ``UrlPath``, a subclass. A path may also continue inside a file
such as an archive. ``locate`` returns the object that reads a path, a ``Location``.
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
# File systems round times, to two seconds at most.
_SETTLED_NS = 2_500_000_000


class UrlPath(type(Path())):  # type: ignore[misc]
    """A URL as a path; ``text_path`` creates it.

    Methods of ``Path`` that need no disk work for it. Opening it like a file raises a UsageError.
    """

    __slots__ = ()

    def __str__(self) -> str:
        scheme, *names = self.parts
        return f"{scheme}//{'/'.join(names)}"

    def __fspath__(self) -> str:
        raise UsageError(f"{self}: is an object in a store; copy it to a file, and give the file")

    def absolute(self) -> "UrlPath":
        """Return the URL itself."""
        return self

    def resolve(self, strict: bool = False) -> "UrlPath":
        """Return the URL itself."""
        return self

    def is_dir(self) -> bool:
        """Return False, because a URL never names a directory."""
        return False


def is_url(path: Path) -> bool:
    """Return whether a path is a URL, e.g. ``s3://bucket/name``."""
    return isinstance(path, UrlPath)


def text_path(text: str) -> Path:
    """Return a user's text as a path or a URL; raise ValueError if the URL is not allowed."""
    if _LIKE_ADDRESS.search(text):
        for entry in registry.entries("address").values():
            entry.load()(text)
    return UrlPath(text) if "://" in text else Path(text)


def hide_credentials(text: str) -> str:
    """Return text without the secrets in its URLs.

    An extension provides a function that does this (``hide``), and one that raises ValueError for
    a text that ``text_path`` must refuse (``load``)::

        provides = {"address": {"mine": {"load": "mine:check", "hide": "mine:hide"}}}
    """
    if _LIKE_ADDRESS.search(text):
        entries = registry.entries("address").values()
        for entry in entries:
            text = entry.load("hide")(text)
        if not entries:  # hide what any URL may have: a login, and anything after its path
            text = re.sub(r"(?<=://)[^\s'/]*@", "…@", text)
            text = re.sub(r"(?<=://)([^\s'?#;]*[?#;]?)[^\s']*", _mark_end, text)
    return text


def _mark_end(address: re.Match[str]) -> str:
    return address[1] + "…" * address[1].endswith(("?", "#", ";"))


# --- the interface --------------------------------------------------------------------------------


class Location(ABC):
    """A type of storage, e.g. zip archives or S3; its methods take paths in such storage.

    An extension provides an instance, named after the scheme of its URLs, or ``*`` for all other
    schemes. For archives, the entry also has the end of their names (``inside``), their first bytes
    (``magic``), and a function that returns the archive that a path leads into (``find``)::

        provides = {"location": {"s3": {"load": "objects:STORES"},
                                 "zip": {"load": "archives:ZIP", "find": "archives:find_archive",
                                         "inside": ".zip", "magic": b"PK"}}}

    The methods raise CorpusError if they cannot read a path. Only local files can be written.
    """

    @abstractmethod
    def open(self, path: Path, once: bool = False) -> BinaryIO:
        """Open ``path`` to read its bytes. If it is read only ``once``, it may also be a pipe."""

    @abstractmethod
    def versions(self, paths: Sequence[Path]) -> list[str | None]:
        """Return, for each path, a string that changes whenever its bytes do; None if missing.

        A file that has just changed also gets None, as its next change might not change the string.
        """

    @abstractmethod
    def find(self, path: Path, sha256: str | None = None) -> tuple[Path, ...]:
        """Return the files that match wildcards (* and ?) in a path, sorted, or raise CorpusError.

        A path without wildcards is returned unchecked. Some locations first fetch the files, whose
        SHA-256 must be ``sha256``, and return the paths of the local copies.
        """

    def is_here(self, path: Path, sha256: str | None = None) -> bool:
        """Return whether ``find`` has nothing to fetch for this path."""
        return True

    def fetched_from(self, path: Path) -> str | None:
        """Return the URL that ``find`` fetches for a path, or None if it fetches nothing."""
        return None


class LocalFiles(Location):
    """The location of files on this machine, which needs no extension."""

    def open(self, path: Path, once: bool = False) -> BinaryIO:
        """Open a file; unless it is read ``once``, raise the same errors as ``open_checked``."""
        if once:  # unbuffered, to get a pipe's bytes as soon as they arrive
            return path.open("rb", buffering=0)
        return open_regular(path)

    def versions(self, paths: Sequence[Path]) -> list[str | None]:
        """Return the size, times and inode of each file as a string; see ``Location.versions``."""
        return list(map(self._version, paths))

    def _version(self, path: Path) -> str | None:
        try:
            status = path.stat()
        except OSError:
            return None
        # The ctime also changes if a file with an old time replaces another one.
        changed = max(status.st_mtime_ns, status.st_ctime_ns)
        if not stat.S_ISREG(status.st_mode) or time.time_ns() - changed < _SETTLED_NS:
            return None
        return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"

    def find(self, path: Path, sha256: str | None = None) -> tuple[Path, ...]:
        """Return the files that match, or just the path if it exists or has no wildcards."""
        pattern = str(path)
        if not any(wildcard in pattern for wildcard in "*?") or path.exists():
            return (path,)
        names = glob.glob(pattern.replace("[", "[[]"))  # noqa: PTH207 - it may be absolute
        files = tuple(file for file in map(Path, sorted(names)) if not file.is_dir())
        if not files:
            raise CorpusError(
                f"{path}: no file matches; relative paths start from the working directory, "
                f"here {Path.cwd()}"
            )
        return files


LOCAL = LocalFiles()


def locate(path: Path) -> Location:
    """Return the object that reads a path; raise MissingExtraError if its scheme is unknown."""
    location = _find_location(path)
    if location is None:
        problem = registry.describe_missing("URL scheme", path.parts[0].removesuffix(":"))
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
    """Return whether a path is neither a URL nor in an archive; the file need not exist."""
    return _find_location(path) is LOCAL


def open_bytes(path: Path) -> BinaryIO:
    """Open a file or a URL to read its bytes; an archive is opened like any other file."""
    return locate(path).open(path) if is_url(path) else open_regular(path)


def find_files(path: Path, sha256: str | None = None) -> tuple[Path, ...]:
    """Return the files that a path matches, fetched if needed; see ``Location.find``."""
    return locate(path).find(path, sha256)


def is_here(path: Path, sha256: str | None = None) -> bool:
    """Return whether ``find_files`` has nothing to fetch; False if no extension reads the path."""
    location = _find_location(path)
    return location is not None and location.is_here(path, sha256)


def fetched_from(path: Path) -> str | None:
    """Return the URL that ``find_files`` fetches for a path, or None if it fetches nothing."""
    location = _find_location(path)
    return None if location is None else location.fetched_from(path)


def versions(paths: Sequence[Path]) -> list[str | None]:
    """Return, for each path, a string that changes with its bytes; see ``Location.versions``."""
    # Ask each location once about all its paths.
    found: dict[Path, str | None] = dict.fromkeys(paths)
    by_location: dict[Location, list[Path]] = {}
    for path in found:
        by_location.setdefault(locate(path), []).append(path)
    for location, those in by_location.items():
        found.update(zip(those, location.versions(those), strict=True))
    return [found[path] for path in paths]


# --- files that may be untrusted ------------------------------------------------------------------


class SpecialFileError(OSError):
    """A pipe, a device or a socket where a file is needed."""


def open_checked(path: str, flags: int) -> int:
    """Open a regular file; an ``opener`` for ``open``. Raise SpecialFileError for a pipe.

    A file opened for writing must not be a symbolic link or have more than one hard link.
    """
    is_written = flags & (os.O_WRONLY | os.O_RDWR)
    flags |= getattr(os, "O_NONBLOCK", 0) | (is_written and getattr(os, "O_NOFOLLOW", 0))
    descriptor = os.open(path, flags, 0o666)
    # Check the open file: somebody may have replaced the path meanwhile.
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and not (is_written and status.st_nlink > 1):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if stat.S_ISREG(status.st_mode):
        raise OSError(errno.EMLINK, "has another name (a hard link); replace it with a copy", path)
    raise SpecialFileError(errno.EINVAL, "is a pipe or a device, not a file", path)


def open_regular(path: Path, mode: Literal["rb", "r+b", "ab", "a+b"] = "rb") -> BinaryIO:
    """Open a file that may be untrusted; raise the same errors as ``open_checked``."""
    return open(path, mode, opener=open_checked)
