"""Read files that may be untrusted, and check that no link or pipe is in the way of new files.

An untrusted directory may contain links that point anywhere, pipes that block, and endless devices.
Code that reads files in it, or changes one in place, uses ``open_regular`` or ``read_small``. Code
that writes new files in it calls ``check_no_links`` first.
"""

import errno
import hashlib
import json
import os
import stat
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from transformer_cli.base.errors import RunError
from transformer_cli.base.locations import is_url, open_bytes

# Limit for manifests, states and records: a thousand times the size of ours. Parsed JSON may take
# 20 times as much memory.
MAX_SMALL_BYTES = 1 << 24


def read_small(path: Path, max_bytes: int = MAX_SMALL_BYTES) -> bytes:
    """Return the bytes of a file or URL; raise OSError if there are more than ``max_bytes``."""
    with open_bytes(path) as file:
        size = file.seek(0, os.SEEK_END)
        if size > max_bytes:
            problem = f"has {size:,} bytes, but the limit is {max_bytes:,}"
            raise OSError(errno.EINVAL, problem, str(path))
        file.seek(0)
        return file.read(size)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, or of the bytes at a URL, in hexadecimal."""
    with open_bytes(path) as file:
        digest = hashlib.file_digest(file, "sha256")  # type: ignore[arg-type]  # it is buffered
    return digest.hexdigest()


def read_json(path: Path) -> Any:
    """Return the content of a small JSON file, or None if it is missing, damaged or too long."""
    try:
        return json.loads(read_small(path))
    except (OSError, ValueError, RecursionError):
        return None


def is_at(file: IO[bytes], path: Path) -> bool:
    """Return whether an open file is still at ``path``; True on Windows, where it cannot move."""
    if sys.platform == "win32":
        return True
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except FileNotFoundError:
        return False


def check_no_links(directory: Path, names: Collection[str] | None = None) -> None:
    """Raise RunError if a link, a pipe or a device is in the way of files to write.

    ``directory`` need not exist, and may itself be a link, because the user has named it.
    ``names`` are the entries that will be written in it; None means any entry.
    """
    waiting = [directory]
    while waiting:
        # An entry that disappears meanwhile is not in the way.
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if names is not None and entry.name not in names:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
                elif not entry.is_file(follow_symlinks=False):
                    advice = f"into {directory}, or make that whole directory a link"
                    check_replaceable(Path(entry.path), f"move its target {advice}")
        names = None


def check_replaceable(path: Path, advice: str = "replace it with its target") -> None:
    """Raise RunError if ``path`` exists and is neither a file nor a directory.

    ``advice`` ends the message about a link, and tells the user what to do.
    """
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISLNK(mode):
        raise RunError(f"{path}: is a link, so its content would be written elsewhere; {advice}")
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise RunError(f"{path}: is a pipe or a device where a file is needed; remove it")


def cache_directory(name: str) -> Path:
    """Return the directory ``name`` in the user's cache directory; it may not exist yet."""
    if given := os.environ.get("TRANSFORMER_CLI_CACHE"):
        return Path(given).absolute() / name
    from platformdirs import user_cache_path

    return user_cache_path("transformer-cli", appauthor=False) / name


def open_cache(name: str) -> Path | None:
    """Return ``cache_directory``, created if needed, or None unless it is private and writable."""
    cache = cache_directory(name)
    try:
        if not cache.is_absolute():  # there is no home directory
            return None
        cache.parent.parent.mkdir(parents=True, exist_ok=True)
        for path in (cache.parent, cache):
            path.mkdir(mode=0o700, exist_ok=True)
            status = path.lstat()
            is_ours = sys.platform == "win32" or (
                status.st_uid == os.geteuid() and not status.st_mode & 0o022
            )
            if path.is_symlink() or not is_ours:
                return None
    except OSError:
        return None
    return cache


def is_stream(path: Path) -> bool:
    """Return whether ``path`` is a device, a pipe or a directory, rather than a file or a URL."""
    if is_url(path):
        return False
    top = path.absolute().parts[1:3]
    in_system = sys.platform != "win32" and top[:1] in (("dev",), ("proc",))
    is_on_disk = top == ("dev", "shm")  # in memory, but its files are regular
    return (in_system and not is_on_disk) or (path.exists() and not path.is_file())


def is_same_file(path: Path, other: Path) -> bool:
    """Return whether two paths lead to the same regular file, or are the same URL."""
    if is_url(path) or is_url(other):
        return path == other
    try:
        return path.is_file() and path.samefile(other)
    except OSError:  # the other one does not exist
        return False
