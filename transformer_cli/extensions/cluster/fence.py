"""A fence around a job: of all processes that were started for it, the newest alone may write.

A worker that was stopped, or cut off, is taken for lost: its job is started again elsewhere. Later
it may go on where it was. So who starts a job puts a new token into a file beside the job's record,
and its process has file and token in its environment. That process ends when the file has another
token, or is gone: it looks every second, and before anything that it writes appears.
"""

import os
import platform
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

VARIABLE = "TRANSFORMER_CLI_FENCE"
"""Of the environment of a job's process, and of those that it starts: the token, and the file."""
EXIT_CODE = 75  # of a process that another one has replaced
_LOOK_SECONDS = 1.0


def raise_fence(file: Path) -> str:
    """Have a process to be started be the only one of its job; return its ``VARIABLE``."""
    lift_fence(file)
    token = uuid.uuid4().hex
    new = file.with_name(f"{file.name}.{token}")
    new.write_text(f"{token} {platform.node()}\n")
    new.replace(file)
    return f"{token} {file}"


def lift_fence(file: Path) -> None:
    """Have nobody be the process of a job: those of this machine are killed, others will end."""
    token, host = _read(file)
    file.unlink(missing_ok=True)
    if token and host == platform.node():
        import psutil

        for process in _find_processes(f"{token} {file}"):
            with suppress(psutil.NoSuchProcess):  # it ends with the one that has started it
                process.kill()


def find_host(file: Path) -> str | None:
    """Return the name of the machine on which a job runs, or may run; None: on none."""
    token, host = _read(file)
    if host == platform.node() and not _find_processes(f"{token} {file}"):
        return None
    return host


def _find_processes(variable: str) -> "list[psutil.Process]":
    """Return the processes with such a ``VARIABLE``: numbers alone might be others' by now."""
    import psutil

    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # it has ended, or is somebody else's
            if process.environ().get(VARIABLE) == variable:
                found.append(process)
    return found


def is_inside(variable: str) -> bool:
    """Return whether the process with such a ``VARIABLE`` is still the one that may write."""
    token, _, file = variable.partition(" ")
    return _read(Path(file))[0] == token


def _read(file: Path) -> tuple[str | None, str | None]:
    """Return the token and the name of the machine; None twice: there is no such file."""
    try:
        token, _, host = file.read_text().strip().partition(" ")
    except FileNotFoundError:
        return None, None
    return token, host


# --- in a job's process ---------------------------------------------------------------------------


class Fence:
    """The guard of this process if ``VARIABLE`` is set; see ``base/guard.py``."""

    patience = 5.0
    """In which a replaced process ends, if it runs and sees the file."""

    def job(self) -> str:
        return os.environ[VARIABLE].partition(" ")[2]

    def check(self) -> None:
        """End this process, and leave all as it is, if another one has replaced it."""
        if not is_inside(os.environ[VARIABLE]):
            with suppress(OSError):
                os.write(2, b"ended, as this job was started again elsewhere\n")
            os._exit(EXIT_CODE)

    def watch(self) -> None:
        while True:
            with suppress(OSError):  # what cannot be read now is asked again before all writing
                self.check()
            time.sleep(_LOOK_SECONDS)


FENCE = Fence()
