"""Read files that may be a stranger's, and write files that appear whole or not at all.

A directory from elsewhere may hold links to any place, pipes that block and devices without end.
What reads below one uses ``open_regular`` or ``read_small``, and so does what writes to a file in
place. What writes below one calls ``check_no_links`` first; ``whole_file`` follows no link, either.

A command calls ``claim`` on the files that it will write before it reads anything: others may be at
work on them, such as a person with an editor.
"""

import errno
import filecmp
import hashlib
import json
import os
import platform
import re
import shutil
import stat
import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import fnmatchcase
from io import FileIO
from itertools import count
from pathlib import Path, PurePath
from typing import IO, Any, BinaryIO, Literal

from transformer_cli import fence
from transformer_cli.errors import CorpusError, OutputError, RunError, UsageError
from transformer_cli.objects import ObjectPath, object_keys, open_object, whole_object

# Of manifests, states and records: a thousand times ours. Parsed, JSON may take 20 times as much
# memory.
MAX_SMALL_BYTES = 1 << 24
# Temporary names carry this mark, the writer's process id and its machine, so that leftovers of a
# killed process can be recognised, and two machines have no name in common.
TEMPORARY_MARK = ".partial-"
TEMPORARY_END = re.escape(TEMPORARY_MARK) + r"(?P<process>\d+)(@(?P<host>.+))?"
"""Pattern of what is added to a name."""
_TEMPORARY_NAME = re.compile(rf"(.*){TEMPORARY_END}", re.DOTALL)
_WINDOWS_DEVICE = re.compile(r"con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]", re.IGNORECASE)
_NOT_IN_WINDOWS_NAMES = re.compile(r'[<>:"|?*\x00-\x1f]|[. ]$')
# Write errors that the operating system raises without a file name.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class SpecialFileError(OSError):
    """A pipe, a device or a socket where a file has to be."""


def open_checked(path: str, flags: int) -> int:
    """Open a regular file, as the opener of ``open``; do not wait for a pipe's other end.

    What is to be written to must be no link, and have no other name.
    """
    is_written = flags & (os.O_WRONLY | os.O_RDWR)
    if is_written:
        fence.check()
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


def read_small(path: Path, max_bytes: int = MAX_SMALL_BYTES) -> bytes:
    """Return the bytes of a regular file or an object; OSError if more than ``max_bytes``."""
    with open_object(path) if isinstance(path, ObjectPath) else open_regular(path) as file:
        size = file.seek(0, os.SEEK_END)
        if size > max_bytes:
            problem = f"has {size:,} bytes, more than the {max_bytes:,} of any such file"
            raise OSError(errno.EINVAL, problem, str(path))
        file.seek(0)
        return file.read(size)


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


def sync(path: Path) -> None:
    """Flush a file, or a directory's entries, to disk; Windows cannot flush a directory."""
    is_windows = sys.platform == "win32"
    if is_windows and path.is_dir():
        return
    # Windows flushes only what is open for writing.
    handle = os.open(path, os.O_RDWR if is_windows else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
    if isinstance(path, ObjectPath):
        return False
    top = path.absolute().parts[1:3]
    in_system = sys.platform != "win32" and top[:1] in (("dev",), ("proc",))
    is_on_disk = top == ("dev", "shm")  # or in memory, but as any other file
    return (in_system and not is_on_disk) or (path.exists() and not path.is_file())


def is_same_file(path: Path, other: Path) -> bool:
    """Return whether two paths are those of one regular file, or of one object."""
    if isinstance(path, ObjectPath) or isinstance(other, ObjectPath):
        return path == other
    try:
        return path.is_file() and path.samefile(other)
    except OSError:  # the other is not there
        return False


def find_unusable_on_windows(path: PurePath) -> str | None:
    """Return the first part of ``path`` that Windows has no file or directory of, or None."""
    for part in path.parts[1:] if path.anchor else path.parts:
        is_device = _WINDOWS_DEVICE.fullmatch(part.partition(".")[0].rstrip())  # with any ending
        if is_device or (part != ".." and _NOT_IN_WINDOWS_NAMES.search(part)):
            return part
    return None


@contextmanager
def name_path_in_error(path: Path) -> Iterator[None]:
    """Make an OSError of the block name ``path`` instead of a temporary file or none."""
    try:
        yield
    except OSError as error:
        # What lies in a temporary directory may be named by its absolute path.
        named = os.path.realpath(str(error.filename)) if error.filename else ""
        temporary = f"{path.parent.resolve() / path.name}{TEMPORARY_MARK}"
        if named.startswith(temporary) or (not named and error.errno in _NO_ROOM):
            error.filename, error.filename2 = str(path), None
        raise


def temporary_path(path: Path) -> Path:
    """Return the name under which this process writes ``path`` before it is whole."""
    return path.with_name(f"{path.name}{TEMPORARY_MARK}{os.getpid()}@{platform.node()}")


@contextmanager
def whole_file(path: Path, is_named: bool = False) -> Iterator[Path]:
    """Give a temporary path to write to; it becomes ``path``, a file or an object, at a good end.

    If the block raises, nothing is left behind and an older ``path`` is as it was. An OSError names
    ``path``, not the temporary one.

    Args:
        path: the final name; its directory must exist.
        is_named: whether a user has named this file for output. Then what a link points to is
            replaced, and a device or a pipe, such as /dev/null, is written to as it is. Otherwise
            they raise RunError.
    """
    if isinstance(path, ObjectPath):
        with whole_object(path, check_claim) as temporary:
            yield temporary
        return
    if is_named and is_stream(path):
        with name_path_in_error(path):
            yield path
        return
    if is_named:
        path = path.resolve()
    check_replaceable(path)
    temporary = temporary_path(path)
    try:
        with name_path_in_error(path):
            temporary.unlink(missing_ok=True)  # it might be a link
            yield temporary
            sync(temporary)
            fence.check()
            if is_named or path in _claimed:
                replace_file(temporary, path)
            else:
                temporary.replace(path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


# --- files that others may be at work on ----------------------------------------------------------

_claimed: dict[Path, str | None] = {}
"""The version that was there when this process claimed a path; None: there was no file."""


@contextmanager
def claim(*paths: Path | None) -> Iterator[None]:
    """Keep other commands from writing these files while the block runs.

    In the block, ``replace_file`` and so ``whole_file`` replace only what is there now, not what
    somebody saves meanwhile. Directories may be claimed too. Stores have no locks.

    Raises:
        OutputError: another process is writing one of them, or it cannot be written.
    """
    with ExitStack() as stack:
        for path in filter(None, paths):
            if isinstance(path, ObjectPath):
                stack.enter_context(expect(path))
            elif path.is_dir() or not is_stream(path):
                place = path.resolve()
                stack.enter_context(_lock_beside(place))
                stack.enter_context(expect(place))
        yield


@contextmanager
def expect(path: Path) -> Iterator[None]:
    """Let only the version of ``path`` that is there now be replaced while the block runs."""
    _claimed[path] = _version(path)
    try:
        yield
    finally:
        del _claimed[path]


def _version(path: Path) -> str | None:
    """Return what changes with a file or an object; None: it is not there."""
    try:
        return object_keys([path])[0] if isinstance(path, ObjectPath) else sha256(path)
    except FileNotFoundError:
        return None
    except (OSError, CorpusError):  # a directory, or what we may write but not read
        return ""


def check_claim(path: Path) -> None:
    """Raise OutputError if ``path`` is claimed, and someone has changed it since."""
    if path in _claimed and _version(path) != _claimed[path]:
        raise OutputError(
            f"{path}: was changed by someone else while this command ran, and is left as it is"
        )


def replace_file(new: Path, path: Path) -> None:
    """Move a finished file into its place; it gets the owner, group and mode of what it replaces.

    If ``path`` is claimed, and someone has changed it since, it stays: OutputError says where the
    new file is instead.
    """
    try:
        check_claim(path)
    except OutputError as error:
        names = (f"{path.name}.new{f'-{n}' if n > 1 else ''}" for n in count(1))
        kept = next(to for name in names if not os.path.lexists(to := path.with_name(name)))
        new.replace(kept)
        raise OutputError(f"{error}; what was to be written is kept in {kept}") from error
    with suppress(FileNotFoundError):
        before = path.stat()
        if sys.platform != "win32":
            for owner, group in ((before.st_uid, -1), (-1, before.st_gid)):
                with suppress(PermissionError):  # only root may give files away
                    os.chown(new, owner, group)
        new.chmod(stat.S_IMODE(before.st_mode))
    new.replace(path)


def partial_path(path: Path) -> Path:
    """Return the name of the file that is locked, and may hold a part, while ``path`` is made."""
    return path.with_name(f"{path.name}.partial")


@contextmanager
def _lock_beside(path: Path) -> Iterator[None]:
    partial = partial_path(path)
    with open_locked(partial) as file:
        try:
            yield
        finally:
            if not file.seek(0, os.SEEK_END):  # or it is a part of an unfinished translation
                close_to_move(file)
                with suppress(OSError):  # on Windows another process has opened it meanwhile
                    partial.unlink(missing_ok=True)


@contextmanager
def open_locked(partial: Path) -> Iterator[FileIO]:
    """Open the file of unfinished output, made if need be, and keep other processes from it."""
    from filelock import lock_descriptor  # 5 ms, which --help does not need

    while True:
        with naming_output_errors(partial):
            if fence.job_file() is not None and partial.exists():
                # A process that this one has replaced may have it open, or locked.
                with whole_file(partial) as copy:
                    shutil.copyfile(partial, copy)
            file = FileIO(
                partial, "r+", opener=lambda path, flags: open_checked(path, flags | os.O_CREAT)
            )
        with file:
            with suppress(OSError):  # a file system without locks
                if not lock_descriptor(file.fileno(), blocking=False):
                    raise OutputError(
                        f"{partial}: another process is writing it; wait for it, or write elsewhere"
                    )
            # Between opening and locking, another process may have finished the file.
            if is_at(file, partial):
                yield file
                return


def close_to_move(file: FileIO) -> None:
    """Close a locked file on Windows, which neither renames nor deletes open ones."""
    # Elsewhere the lock is kept until it is done.
    if sys.platform == "win32":
        file.close()


@contextmanager
def naming_output_errors(path: Path) -> Iterator[None]:
    """Turn errors of the operating system into one that names the file."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error


# --- directories ----------------------------------------------------------------------------------


@contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """Give a temporary directory to fill; it becomes ``path`` when the block ends well.

    ``path`` must not exist yet, or be an empty directory; its parent must exist.
    """
    temporary = temporary_path(path)
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with name_path_in_error(path):
            temporary.mkdir()
            yield temporary
            for file in temporary.rglob("*"):
                sync(file)
            sync(temporary)
            if sys.platform == "win32" and path.is_dir():
                path.rmdir()  # a rename replaces nothing there
            fence.check()
            temporary.rename(path)
        sync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def add_files(made: Path, directory: Path) -> list[Path]:
    """Copy all files below ``made`` to the same places below ``directory``, over none of its files.

    Return the places of those that are new, relative to ``directory``; equal ones may be there. If
    a different one is, raise UsageError before anything is copied.
    """
    places = sorted(path.relative_to(made) for path in made.rglob("*") if path.is_file())
    new = []
    for place in places:
        there = directory / place
        for parent in there.parents:
            # A link that points nowhere is something that is there, too.
            if os.path.lexists(parent) and not parent.is_dir():
                raise UsageError(f"{parent}: is no directory; move it away, or name another DIR")
        if not os.path.lexists(there):
            new.append(place)
        elif not (there.is_file() and filecmp.cmp(made / place, there, shallow=False)):
            raise UsageError(
                f"{there}: is there already, and differs from what was to be written; move it "
                "away, or name another directory"
            )
    for place in new:
        (directory / place).parent.mkdir(parents=True, exist_ok=True)
        with (made / place).open("rb") as source, (directory / place).open("xb") as target:
            shutil.copyfileobj(source, target)
    return new


def remove_directory(path: Path) -> None:
    """Delete a directory, which is gone as a whole or still whole if the process dies midway."""
    doomed = temporary_path(path)
    fence.check()
    path.rename(doomed)
    shutil.rmtree(doomed)


def remove_leftovers(
    directory: Path, ours: Collection[str] = (), others: Collection[str] = ("*",)
) -> None:
    """Delete what killed writers left in ``directory`` (not below it).

    ``ours`` are patterns of names that nobody else can be writing now. Their leftovers go even
    where another process, or one on another machine, has the number of the one that was killed;
    those of ``others`` go if they are this machine's, and no process has that number.
    """
    fence.check()
    for entry in directory.iterdir():
        temporary = _TEMPORARY_NAME.fullmatch(entry.name)
        if temporary is None:
            continue
        is_ours, is_others = (
            any(fnmatchcase(temporary[1], pattern) for pattern in patterns)
            for patterns in (ours, others)
        )
        is_elsewhere = temporary["host"] not in (None, platform.node())
        is_left = not is_elsewhere and not _is_running(int(temporary["process"]))
        if not is_ours and not (is_others and is_left):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def _is_running(process_id: int) -> bool:
    import psutil

    # A process that had our number before us is gone.
    with suppress(OverflowError):
        return process_id != os.getpid() and psutil.pid_exists(process_id)
    return False


def sha256(path: Path) -> str:
    """Return the SHA-256 of the bytes of a file or an object, in hexadecimal."""
    with open_object(path) if isinstance(path, ObjectPath) else open_regular(path) as file:
        digest = hashlib.file_digest(file, "sha256")  # type: ignore[arg-type]  # it is buffered
    return digest.hexdigest()
