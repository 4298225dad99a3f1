"""Lock a run directory for one writer."""

import errno
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from filelock import lock_descriptor

from transformer_cli.errors import RunError, RunInUseError
from transformer_cli.files import is_at, name_path_in_error, open_regular
from transformer_cli.runs.directory import LOCK, RunDirectory

# Longer than a check holds the lock, and shorter than any training.
_RETRY_SECONDS = 0.2


def check_unlocked(run: RunDirectory) -> None:
    """Check, before long work and without writing, that no other process writes to ``run``.

    This does not import torch, so that a second training fails at once. Of several ranks only the
    main process, which will lock the directory, may call it.
    """
    run.check_is_run_or_empty()
    try:
        file = open_regular(run.path / LOCK, "r+b")
    except OSError:
        return  # there is no lock yet; ``lock_run`` reports if there cannot be one
    with file:
        _lock(run.path, file)


@contextmanager
def lock_run(run: RunDirectory) -> Iterator[None]:
    """Lock ``run`` while the block runs; see ``lock_directory``."""
    run.check_is_run_or_empty()
    with lock_directory(run.path):
        yield


@contextmanager
def lock_directory(path: Path, patience: float = _RETRY_SECONDS) -> Iterator[int]:
    """Lock a directory, made if it is not there, while the block runs.

    The operating system releases the lock however the process ends. The lock file stays, and names
    the last holder.

    Args:
        path: the directory.
        patience: seconds to wait for another process to release it.

    Yields:
        the lock's descriptor; a process that has it open holds the lock, too.
    """
    lock = path / LOCK
    while True:
        try:
            path.mkdir(parents=True, exist_ok=True)
            file = open_regular(lock, "a+b")
        except OSError as error:
            where = lock if error.errno == errno.EMLINK else path
            raise RunError(f"{where}: cannot be written: {error.strerror}") from error
        with file:
            _lock(path, file, patience)
            if not is_at(file, lock):
                continue  # its holder has renamed the directory meanwhile
            with name_path_in_error(lock):
                # Unbuffered: a failed write to a full disk is not repeated when the file is closed.
                os.ftruncate(file.fileno(), 0)
                holder = f"\nprocess {os.getpid()} on {socket.gethostname()}\n"
                os.write(file.fileno(), holder.encode())
            yield file.fileno()
            return


def _lock(path: Path, file: BinaryIO, patience: float = _RETRY_SECONDS) -> None:
    # It may be held by a check, or by what a killed process had started.
    deadline = time.monotonic() + patience
    try:
        is_ours = lock_descriptor(file.fileno(), blocking=False)
        while not is_ours and time.monotonic() < deadline:
            time.sleep(_RETRY_SECONDS)
            is_ours = lock_descriptor(file.fileno(), blocking=False)
    except OSError as error:
        raise RunError(
            f"{path}: cannot be locked: {error.strerror}; choose a directory on a local disk"
        ) from error
    if is_ours:
        return
    # Windows lets nobody else read the first byte, which is locked.
    file.seek(1 if sys.platform == "win32" else 0)
    holder = file.read(1000).decode(errors="replace").strip() or "another process"
    raise RunInUseError(f"{path}: in use by {holder}; wait for it, or use another directory")
