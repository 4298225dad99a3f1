"""Read files that may be a stranger's, and check directories that may be before writing to them.

A directory from elsewhere may hold links to any place, pipes that block and devices without end.
What reads below one uses ``open_regular`` or ``read_small``, and so does what writes to a file in
place. What writes below one calls ``check_no_links`` first; ``whole_file`` follows no link, either.
"""

import errno
import os
import stat
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import IO, BinaryIO, Literal

from transformer_cli.errors import RunError

MAX_SMALL_BYTES = 1 << 24
"""Of manifests, states and records: a thousand times ours. Parsed, JSON may take 20 times as much
memory."""


class SpecialFileError(OSError):
    """A pipe, a device or a socket where a file has to be."""


def open_checked(path: str, flags: int) -> int:
    """Open a regular file, as the opener of ``open``; do not wait for a pipe's other end.

    What is written to is no link, nor another name of a file elsewhere.

    Raises:
        SpecialFileError: it is no regular file.
        OSError: it cannot be opened, or is not to be written to.
    """
    is_written = flags & (os.O_WRONLY | os.O_RDWR)
    flags |= getattr(os, "O_NONBLOCK", 0) | (is_written and getattr(os, "O_NOFOLLOW", 0))
    descriptor = os.open(path, flags, 0o666)
    # Of what was opened, which somebody may have replaced meanwhile.
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and not (is_written and found.st_nlink > 1):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if stat.S_ISREG(found.st_mode):
        raise OSError(errno.EMLINK, "has another name elsewhere; replace it by a copy", path)
    raise SpecialFileError(errno.EINVAL, "is a pipe or a device, not a file", path)


def open_regular(path: Path, mode: Literal["rb", "r+b", "ab", "a+b"] = "rb") -> BinaryIO:
    """Open a file that may be a stranger's; raise what ``open_checked`` does."""
    return open(path, mode, opener=open_checked)


def read_small(path: Path, max_bytes: int = MAX_SMALL_BYTES) -> bytes:
    """Return the bytes of a file that may be a stranger's.

    Raises:
        OSError: it cannot be read, is no regular file, or is larger than ``max_bytes``.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > max_bytes:
            problem = f"has {size:,} bytes, more than the {max_bytes:,} of any such file"
            raise OSError(errno.EINVAL, problem, str(path))
        return file.read(size)


def is_at(file: IO[bytes], path: Path) -> bool:
    """Return whether an open file is still the one at ``path``; Windows moves none that is open."""
    if sys.platform == "win32":
        return True
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except FileNotFoundError:
        return False


def check_no_links(directory: Path, names: Collection[str] | None = None) -> None:
    """Check that all below a directory is directories and files, so that it can be written to.

    The directory itself may be a link: the user has named it.

    Args:
        directory: need not exist.
        names: of what is written in it; None: everything may be.

    Raises:
        RunError: there is a link, a pipe or a device.
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
    """Check that there is nothing at ``path`` but a file or a directory.

    Args:
        path: where something is to be written.
        advice: what to do about a link; its message ends with it.

    Raises:
        RunError: there is something else.
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
