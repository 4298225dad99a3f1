"""Write files that appear whole or not at all, without overwriting other people's work.

``whole_file`` does not follow links. Before a command reads anything, it calls ``claim`` on the
files that it will write, because someone may be changing them in an editor. Nothing is locked. If
two commands write the same file, the second one to end saves its output under a new name.
"""

import errno
import os
import platform
import re
import shutil
import stat
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from io import FileIO
from itertools import count
from pathlib import Path
from secrets import token_hex

from transformer_cli.base.errors import OutputError
from transformer_cli.base.files import check_replaceable, is_at, is_stream, sha256

# What is added to the names of unfinished files, which are next to the file that is being written.
PARTIAL = ".partial"
"""Added to the name of resumable output; its progress is in files with ``PARTIAL_JOURNALS``."""
PARTIAL_JOURNALS = (f"{PARTIAL}.json", f"{PARTIAL}.json.new")
TEMPORARY_MARK = f"{PARTIAL}-"
"""Added to the names of all other unfinished files. The writer's process id and machine follow, to
recognize leftovers of a killed process, and random digits, so that nobody can guess the name."""
TEMPORARY_END = re.escape(TEMPORARY_MARK) + r"(?P<process>\d+)(-[0-9a-f]{16})?(@(?P<host>.+))?"
"""Regular expression for ``TEMPORARY_MARK`` and what follows it."""
_TEMPORARY_NAME = re.compile(rf"(.*){TEMPORARY_END}", re.DOTALL)
# Write errors that the operating system raises without a file name.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def sync(path: Path) -> None:
    """Flush a file, or a directory's entries, to disk; Windows cannot flush a directory."""
    is_windows = sys.platform == "win32"
    if is_windows and path.is_dir():
        return
    # Windows can flush a file only if it is open for writing.
    handle = os.open(path, os.O_RDWR if is_windows else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def name_path_in_error(path: Path) -> Iterator[None]:
    """Change an OSError in the block to name ``path`` instead of a temporary file or no file."""
    try:
        yield
    except OSError as error:
        # An error may name a file in a temporary directory by its absolute path.
        named = os.path.realpath(str(error.filename)) if error.filename else ""
        temporary = f"{path.parent.resolve() / path.name}{TEMPORARY_MARK}"
        if named.startswith(temporary) or (not named and error.errno in _NO_ROOM):
            error.filename, error.filename2 = str(path), None
        raise


def temporary_path(path: Path) -> Path:
    """Return a new name next to ``path``, for a file or directory that is not complete yet."""
    end = f"{TEMPORARY_MARK}{os.getpid()}-{token_hex(8)}@{platform.node()}"
    return path.with_name(path.name + end)


@contextmanager
def whole_file(path: Path, is_named: bool = False) -> Iterator[Path]:
    """Yield a temporary file to write; that file becomes ``path`` if the block succeeds.

    If the block raises, nothing is left behind, and an existing ``path`` stays unchanged. An
    OSError names ``path``, not the temporary file.

    Args:
        path: the final name; its directory must exist.
        is_named: whether a user has named this file for output. If so, the caller must have claimed
            it, a link's target is replaced, and a device or a pipe, such as /dev/null, is written
            directly. Otherwise, links, devices and pipes raise RunError.
    """
    if is_named and is_stream(path):
        with name_path_in_error(path):
            yield path
        return
    if is_named:
        path = path.resolve()
        assert path in _claimed, f"call claim({path}) first, or others' edits are lost"
    check_replaceable(path)
    temporary = temporary_path(path)
    try:
        with name_path_in_error(path), FileIO(temporary, "x") as file:
            yield temporary
            sync(temporary)
            if path in _claimed:
                replace_file(file, temporary, path)
            else:
                file.close()  # Windows cannot move an open file
                temporary.replace(path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


# --- files that others may be changing ------------------------------------------------------------

_claimed: dict[Path, str | None] = {}
"""For each claimed path, the version that this process may replace; None if no file existed."""


@contextmanager
def claim(*paths: Path | None) -> Iterator[None]:
    """While the block runs, let this process replace only the current versions of these paths.

    A version that somebody else saves meanwhile is kept; see ``replace_file``. If a path is
    already claimed, the first claim counts.
    """
    named = (path for path in paths if path is not None)
    places = {path.resolve() for path in named if not is_stream(path) or path.is_dir()}
    new = places - _claimed.keys()
    _claimed.update((place, _find_version(place)) for place in new)
    try:
        yield
    finally:
        for place in new:
            del _claimed[place]


def _find_version(path: Path) -> str | None:
    """Return a string that changes with a file's content, or None if there is no file."""
    try:
        return sha256(path)
    except FileNotFoundError:
        return None
    except OSError:  # a directory, or a file that we may write but not read
        return ""


def replace_file(file: FileIO, new: Path, path: Path) -> None:
    """Move a finished file to ``path``; it gets the owner, group and mode of the file it replaces.

    If ``path`` is claimed and someone has changed it since, it stays, and OutputError says where
    the new file is. But if ``path`` was deleted or has the same bytes, it is replaced.

    Args:
        file: the new file, which is open; a lock on it is held until the file is at ``path``.
        new: its temporary name.
        path: its final name.
    """
    if not is_at(file, new):
        raise OutputError(
            f"{new}: was replaced by someone else while it was being written; write to a directory "
            "that only you can change"
        )
    version = _find_version(new)
    if sys.platform == "win32":
        file.close()  # Windows cannot move an open file, and keeps no permissions
    else:
        _keep_permissions(file.fileno(), path)
    if path in _claimed and _find_version(path) not in (None, _claimed[path], version):
        names = (f"{path.name}.new{f'-{n}' if n > 1 else ''}" for n in count(1))
        kept = next(to for name in names if not os.path.lexists(to := path.with_name(name)))
        new.replace(kept)
        raise OutputError(
            f"{path}: was changed by someone else while this command ran, so it stays unchanged; "
            f"the output is in {kept}"
        )
    new.replace(path)
    file.close()
    if path in _claimed:
        _claimed[path] = version


def _keep_permissions(descriptor: int, path: Path) -> None:
    """Give an open file the owner, group and mode of ``path``, as far as the system allows."""
    with suppress(FileNotFoundError):
        before, status = path.lstat(), os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            return
        mode = before.st_mode & 0o777
        with suppress(OSError):
            os.fchown(descriptor, -1, before.st_gid)
        if os.fstat(descriptor).st_gid != before.st_gid:
            mode &= 0o707  # otherwise another group could read it
        with suppress(OSError):
            os.fchmod(descriptor, mode)
        if status.st_uid == os.geteuid():
            with suppress(OSError):  # only root may give files away
                os.fchown(descriptor, before.st_uid, -1)


# --- directories ----------------------------------------------------------------------------------


@contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory to fill; it becomes ``path`` if the block succeeds.

    ``path`` must not exist yet, or must be an empty directory; its parent must exist.
    """
    temporary = temporary_path(path)
    try:
        with name_path_in_error(path):
            temporary.mkdir()
            yield temporary
            for file in temporary.rglob("*"):
                sync(file)
            sync(temporary)
            if sys.platform == "win32" and path.is_dir():
                path.rmdir()  # Windows' rename replaces nothing
            temporary.rename(path)
        sync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_directory(path: Path) -> None:
    """Delete a directory; if the process dies midway, ``path`` is either gone or still whole."""
    doomed = temporary_path(path)
    path.rename(doomed)
    shutil.rmtree(doomed)


def remove_leftovers(
    directory: Path, ours: Collection[str] = (), others: Collection[str] = ("*",)
) -> None:
    """Delete the leftovers of killed writers in ``directory`` (not in its subdirectories).

    ``ours`` are patterns of names that no other process can be writing now. Their leftovers are
    always deleted, even if some process has the killed writer's process id. Leftovers that match
    ``others`` are deleted only if they were written on this machine and no process has that id.
    """
    for entry in directory.iterdir():
        if (temporary := _TEMPORARY_NAME.fullmatch(entry.name)) is None:
            continue
        is_here = temporary["host"] in (None, platform.node())
        is_left = is_here and not _is_running(int(temporary["process"]))
        doomed = (*ours, *others) if is_left else ours
        if not any(fnmatchcase(temporary[1], pattern) for pattern in doomed):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def _is_running(process_id: int) -> bool:
    import psutil

    # If the id is ours, the process that had it before us is gone.
    with suppress(OverflowError):
        return process_id != os.getpid() and psutil.pid_exists(process_id)
    return False
