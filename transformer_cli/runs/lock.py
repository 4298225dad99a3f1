"""One writer a run directory."""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from transformer_cli.errors import RunError, RunInUseError
from transformer_cli.files import naming
from transformer_cli.runs.contents import PREVIOUS
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.replacing import is_replacing, settle

# Longer than anybody asks for, and shorter than anybody trains.
_ASKING_SECONDS = 0.2


def check_unlocked(run: RunDirectory) -> None:
    """Make sure, before long work and without writing, that nobody else writes to ``run``.

    This needs no torch, so that whoever starts a second training is told at once. In a training of
    several processes only the one that will lock the directory may ask.

    Raises:
        RunError: another process has the lock, or the directory holds something else.
    """
    run.check_is_run_or_empty()
    try:
        file = run.lock.open(encoding="utf-8")
    except OSError:
        return  # there is no lock yet; whether there can be one is for ``locked`` to find out
    with file:
        _lock(run, file, fcntl.LOCK_SH)


@contextmanager
def locked(run: RunDirectory) -> Iterator[bool]:
    """Keep other processes from writing to ``run`` while the block runs.

    Gives whether an earlier run was put back, whose replacement has been killed.

    The operating system gives the lock back however the process ends; the file that it hangs on
    stays, and says who had it last.

    Raises:
        RunError: another process has the lock, or the directory holds something else or cannot be
            written.
    """
    run.check_is_run_or_empty()
    try:
        run.path.mkdir(parents=True, exist_ok=True)
        file = run.lock.open("a+", encoding="utf-8")
    except OSError as error:
        raise RunError(f"{run.path}: cannot be written: {error.strerror}") from error
    with file:
        _lock(run, file, fcntl.LOCK_EX)
        with naming(run.lock):
            # Unbuffered: what a full disk does not take is not tried again when the file is closed.
            os.ftruncate(file.fileno(), 0)
            os.write(file.fileno(), f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        yield settle(run.path)


def put_back(run: RunDirectory) -> bool:
    """Put an earlier run back in its place if a training was to replace it and was killed.

    Returns:
        Whether it was put back; not where that training still goes on.

    Raises:
        RunError: it cannot be.
    """
    if not is_replacing(run.path):
        return False
    try:
        with locked(run) as is_back:
            return is_back
    except RunInUseError:
        return False
    except RunError as error:
        raise RunError(
            f"{run.path}: a new run was killed before its first checkpoint, and the earlier one, "
            f"in {run.path / PREVIOUS}, cannot be put back: {error}"
        ) from error


def _lock(run: RunDirectory, file: TextIO, kind: int) -> None:
    try:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_ASKING_SECONDS)  # it may have been somebody who only asked
            fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "another process"
        raise RunInUseError(
            f"{run.path}: in use by {holder}; wait for it, or use another directory"
        ) from None
    except OSError as error:
        raise RunError(
            f"{run.path}: cannot be locked: {error.strerror}; choose a --run-dir on a local disk"
        ) from error
