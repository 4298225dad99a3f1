"""A command of this program as a process of its own, which ends with its starter.

``CHILD`` runs this module: the starter holds the other end of stdin. When the starter dies,
whatever the reason, the pipe is closed, and this process ends at once; what it was writing is whole
or not there.
"""

import os
import platform
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

from transformer_cli.base.child import PROGRAM, environment
from transformer_cli.base.locations import open_regular
from transformer_cli.base.writing import whole_file
from transformer_cli.extensions.cluster import fence

CHILD = (*PROGRAM[:-1], "transformer_cli.extensions.experiments.child")
"""Starts it as a process that ends with this one, given its arguments and a pipe as stdin."""
TERMINATED = 143
"""Exit code of a command that was asked to end; batch systems ask all of a worker's processes."""
ERROR = "transformer-cli: error: "
_POLL_SECONDS = 0.1

APART: dict[str, Any]  # options of Popen by which a process is no part of its starter's Ctrl-C
STOP: int  # the signal that asks it to stop
if sys.platform == "win32":
    from subprocess import CREATE_NEW_PROCESS_GROUP

    APART, STOP = {"creationflags": CREATE_NEW_PROCESS_GROUP}, signal.CTRL_BREAK_EVENT
else:
    APART, STOP = {"start_new_session": True}, signal.SIGTERM


class Ended(NamedTuple):
    """How a command ended."""

    code: int  # exit code of the process; negative: the signal that killed it
    message: str = ""  # why it failed; empty if it printed that itself


class Command(NamedTuple):
    """A command of transformer-cli that runs in its own process; all paths are absolute."""

    arguments: Sequence[str]
    directory: Path  # where it runs; its arguments may be relative to it
    stop: Path
    """When this file appears, the command is stopped; that works on other machines too."""
    owner: Path  # the file of its ``fence``, in case several workers run it at once
    stdout: Path | None = None
    """The file that its output is written to if it succeeds; None: it goes where stderr goes."""
    log: Path | None = None  # the file that stderr is appended to; None: this process' stderr
    variables: Sequence[tuple[str, str]] = ()  # added to this process' environment
    restarts: int = 0  # how often it was started again
    lock: int | None = None
    """A descriptor that the command keeps open, so that the directory stays locked until it has
    ended, even if its starter ends first."""


def run_command(command: Command) -> Ended:
    """Run a command to its end; any other process that runs it now gives up."""
    for path in (command.directory, command.owner.parent):
        if not path.is_dir():
            missing = f"{platform.node()} has no directory {path}"
            return Ended(1, f"{missing}; work on a disk that all workers see under one path")
    if command.stop.exists():  # the worker that should have seen it is lost
        fence.lift_fence(command.owner)
        command.stop.unlink()
        return Ended(TERMINATED, "stopped")
    inside = fence.raise_fence(command.owner)
    if command.stdout is None:
        return _run(command, inside, None)
    with suppress(_FailedError), whole_file(command.stdout) as new, new.open("wb") as file:
        ended = _run(command, inside, file.fileno())
        if ended.code:
            raise _FailedError  # the file must not appear
    return ended


class _FailedError(Exception):
    pass


def _run(command: Command, inside: str, stdout: int | None) -> Ended:
    log = command.log
    with ExitStack() as stack:
        stderr, log_start = sys.stderr.fileno(), 0
        if log is not None:
            file = stack.enter_context(open_regular(log, "ab"))
            stderr, log_start = file.fileno(), file.tell()
        variables = {**environment(), **dict(command.variables), fence.VARIABLE: inside}
        # Dask's nanny sets this, which makes training steps take twice as long.
        variables.pop("MALLOC_TRIM_THRESHOLD_", None)
        kept_open = () if command.lock is None or sys.platform == "win32" else (command.lock,)
        process = subprocess.Popen(
            [*CHILD, *command.arguments],
            cwd=command.directory,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=stderr if stdout is None else stdout,
            stderr=stderr,
            pass_fds=kept_open,
            # Ctrl-C goes to this process, which stops the command itself.
            **APART,
        )
        is_asked = False
        while process.poll() is None:
            if command.stop.exists() and not is_asked:
                is_asked = True
                with suppress(ProcessLookupError):
                    process.send_signal(STOP)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_SECONDS)
    if not fence.is_inside(inside):
        # The record and any request to stop belong to the other process.
        return Ended(fence.EXIT_CODE, f"taken over by {fence.find_host(command.owner)}")
    command.stop.unlink(missing_ok=True)
    command.owner.unlink(missing_ok=True)
    code = process.returncode
    if code and log is not None:
        with open_regular(log) as file:
            file.seek(log_start)
            lines = file.read().decode(errors="replace").splitlines()
        errors = [line.removeprefix(ERROR) for line in lines if line.startswith(ERROR)]
        if errors:
            return Ended(code, errors[-1])
    if code < 0:
        return Ended(code, f"killed by signal {-code} (out of memory?)")
    return Ended(code, f"exit code {code}; see {log}" if code and log is not None else "")


# --- in the process -------------------------------------------------------------------------------


def main() -> None:
    """Run the command line given in ``sys.argv``."""
    import runpy

    threading.Thread(target=_end_with_starter, daemon=True).start()
    if fence.VARIABLE in os.environ:
        fence.FENCE.check()
        threading.Thread(target=fence.FENCE.watch, daemon=True).start()
    runpy.run_module("transformer_cli", run_name="__main__", alter_sys=True)


def _end_with_starter() -> None:
    # Not sys.stdin, whose lock would be held while the interpreter shuts down.
    while os.read(0, 1):
        pass
    os._exit(143)


if __name__ == "__main__":
    main()
