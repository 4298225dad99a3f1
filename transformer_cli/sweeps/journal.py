"""Optuna's journal of a search in a directory that several machines may share.

Optuna's own locks are files: one that a killed process leaves blocks the others for 30 seconds, and
without end if it is a symbolic link and the journal's path is relative; a process that was stopped
for longer loses its lock and writes all the same. Here the operating system holds the lock (flock),
and releases it however the holder ends. On NFS that needs Linux's version 3 with lockd, or 4.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from filelock import FileLock, Timeout

from transformer_cli.errors import RunError
from transformer_cli.files import open_regular

JOURNAL = "study.journal"
_LOCK = "study.lock"
_PATIENCE = 120.0
"""Seconds to wait for the lock, which is held for a fraction of one."""


class JournalLock:
    """A lock on the journal, which its holder may take again; Optuna takes it for each write."""

    def __init__(self, directory: Path) -> None:
        self._journal = directory / JOURNAL
        self._lock = FileLock(directory / _LOCK)

    def acquire(self) -> bool:
        """Wait for the lock, and make the journal fit to be written to."""
        try:
            open_regular(Path(self._lock.lock_file), "ab").close()  # which FileLock cuts to nothing
            self._lock.acquire(timeout=_PATIENCE)
        except Timeout as error:
            raise RunError(
                f"{self._lock.lock_file}: held for {_PATIENCE:.0f} s by another process; if one "
                "that works on this sweep is stopped, continue or kill it"
            ) from error
        except OSError as error:
            raise RunError(
                f"{self._lock.lock_file}: cannot be locked: {error.strerror}; a sweep needs a "
                "directory that can be written and whose file system has locks"
            ) from error
        _drop_torn_line(self._journal)
        return True

    def release(self) -> None:
        """Release the lock, or one of several times that it was taken."""
        self._lock.release()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock while the block runs."""
        self.acquire()
        try:
            yield
        finally:
            self.release()


def open_storage(directory: Path, lock: JournalLock, optuna: ModuleType) -> Any:
    """Return Optuna's storage of the journal in ``directory``."""
    backend = optuna.storages.journal.JournalFileBackend(str(directory / JOURNAL), lock)
    return optuna.storages.JournalStorage(backend)


def _drop_torn_line(journal: Path) -> None:
    """Remove a last line that was not written to its end.

    Optuna would append to it, and could read nothing from there on.
    """
    if not journal.exists():
        return
    with open_regular(journal, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 1, 0))
        if file.read() in (b"", b"\n"):
            return
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
