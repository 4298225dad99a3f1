"""One writer a run directory."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from transformer_cli.errors import RunError
from transformer_cli.runs.directory import RunDirectory


@contextmanager
def locked(run: RunDirectory) -> Iterator[None]:
    """Keep other processes from writing to ``run`` while the block runs.

    The operating system gives the lock back however the process ends; the file that it hangs on
    stays, and says who had it last.

    Raises:
        RunError: another process has the lock, or the directory holds something else or cannot be
            written.
    """
    run.refuse_other_content()
    try:
        run.path.mkdir(parents=True, exist_ok=True)
        file = run.lock.open("a+", encoding="utf-8")
    except OSError as error:
        raise RunError(f"{run.path}: cannot be written: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise RunError(
                f"{run.path}: in use by {holder}; wait for it, or use another directory"
            ) from None
        except OSError as error:
            raise RunError(
                f"{run.path}: cannot be locked: {error.strerror}; "
                "choose a --run-dir on a local disk"
            ) from error
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield
