"""Read files that may be a stranger's, and check what is in the way of files to be written.

A directory from elsewhere may hold links to any place, pipes that block and devices without end.
What reads below one uses ``open_regular`` or ``read_small``, and so does what writes to a file in
place. What writes below one calls ``check_no_links`` first.
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

# Of manifests, states and records: a thousand times ours. Parsed, JSON may take 20 times as much
# memory.
MAX_SMALL_BYTES = 1 << 24


def read_small(path: Path, max_bytes: int = MAX_SMALL_BYTES) -> bytes:
    """Return the bytes of a regular file or an object; OSError if more than ``max_bytes``."""
    with open_bytes(path) as file:
        size = file.seek(0, os.SEEK_END)
        if size > max_bytes:
            problem = f"has {size:,} bytes, more than the {max_bytes:,} of any such file"
            raise OSError(errno.EINVAL, problem, str(path))
        file.seek(0)
        return file.read(size)


def sha256(path: Path) -> str:
    """Return the SHA-256 of the bytes of a file or an object, in hexadecimal."""
    with open_bytes(path) as file:
        digest = hashlib.file_digest(file, "sha256")  # type: ignore[arg-type]  # it is buffered
    return digest.hexdigest()


def read_json(path: Path) -> Any:
    """Return what a small JSON file holds; None if it is missing, damaged or too long."""
    try:
        return json.loads(read_small(path))
    except (OSError, ValueError, RecursionError):
        return None


def is_at(file: IO[bytes], path: Path) -> bool:
    """Return whether an open file is still the one at ``path``; Windows moves none that is open."""
    if sys.platform == "win32":
        return True
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except FileNotFoundError:
        return False


def check_no_links(directory: Path, names: Collection[str] | None = None) -> None:
    """Raise RunError if there is a link, a pipe or a device where something is to be written.

    ``directory`` need not exist, and may be a link itself, as the user has named it. ``names`` are
    those of what is written in it; None: everything may be.
    """
    waiting = [directory]
    while waiting:
        # What has gone meanwhile is not in the way.
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if names is not None and entry.name not in names:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
                elif not entry.is_file(follow_symlinks=False):
                    advice = f"into {directory}, or link that directory as a whole"
                    check_replaceable(Path(entry.path), f"move what it leads to {advice}")
        names = None


def check_replaceable(path: Path, advice: str = "put what it leads to in its place") -> None:
    """Raise RunError if there is something at ``path`` but a file or a directory.

    ``advice`` is what to do about a link; its message ends with it.
    """
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISLNK(mode):
        raise RunError(
            f"{path}: is a link, and what is written there would be written elsewhere; {advice}"
        )
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise RunError(f"{path}: is a pipe or a device, and in the way; remove it")


def cache_directory(name: str) -> Path:
    """Return the directory of the user's cache for files of a kind; it need not be there."""
    if given := os.environ.get("TRANSFORMER_CLI_CACHE"):
        return Path(given).absolute() / name
    from platformdirs import user_cache_path

    return user_cache_path("transformer-cli", appauthor=False) / name


def open_cache(name: str) -> Path | None:
    """Return ``cache_directory``, made if need be; None: others may write it, or nobody can."""
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
    """Return whether ``path`` is a device or a pipe, not a regular file or an object."""
    if is_url(path):
        return False
    top = path.absolute().parts[1:3]
    in_system = sys.platform != "win32" and top[:1] in (("dev",), ("proc",))
    is_on_disk = top == ("dev", "shm")  # or in memory, but as any other file
    return (in_system and not is_on_disk) or (path.exists() and not path.is_file())


def is_same_file(path: Path, other: Path) -> bool:
    """Return whether two paths are those of one regular file, or of one object."""
    if is_url(path) or is_url(other):
        return path == other
    try:
        return path.is_file() and path.samefile(other)
    except OSError:  # the other is not there
        return False
