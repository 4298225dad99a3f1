"""What a command does as a process: standard streams, stop signals, lack of memory or threads."""

import errno
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from transformer_cli.base.errors import is_out_of_memory
from transformer_cli.base.ranks import find_ranks

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer


def open_closed_streams() -> None:
    """Open the null device in place of each closed standard stream, e.g. after ``2>&-``.

    Otherwise any file could get its descriptor, and Python prints to stdout if there is no stderr.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


class _Output(FileIO):
    """Standard output; its errors have "standard output" as their file name."""

    def write(self, data: "Buffer", /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = "standard output"
            raise


def use_utf8() -> None:
    """Use UTF-8 for the standard streams in any locale; pipes on Windows would use a code page."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # None if it is closed
            stream.reconfigure(encoding="utf-8", errors=stream.errors)
    given = sys.stdout
    if not isinstance(given, TextIOWrapper):
        return
    raw = getattr(given.buffer, "raw", given.buffer)  # the latter with PYTHONUNBUFFERED
    if type(raw) is FileIO:
        named = _Output(given.fileno(), "w", closefd=False)
        sys.stdout = TextIOWrapper(
            named if raw is given.buffer else BufferedWriter(named),
            encoding="utf-8",
            errors=given.errors,
            line_buffering=given.line_buffering,
            write_through=given.write_through,
        )


def settle_output() -> OSError | None:
    """Flush standard output; return the error if that fails, except for a closed pipe."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        return discard_output(error)
    return None


def discard_output(error: OSError) -> OSError | None:
    """Discard all standard output from now on; return ``error``, or None if it is a closed pipe."""
    # Otherwise Python tries to write its buffer when it ends, and exits with its own code.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return None if is_closed_pipe(error) else error


def is_closed_pipe(error: OSError) -> bool:
    """Return whether an error means that a pipe's reader closed it, e.g. ``translate … | head``."""
    # Windows reports "invalid argument" instead.
    is_invalid = sys.platform == "win32" and error.errno == errno.EINVAL
    return is_invalid or isinstance(error, BrokenPipeError)


class StopRequest:
    """The first stop signal that this process has received, if any."""

    signal: int | None = None  # None: no signal has come yet


@contextmanager
def stop_requests(message: str) -> Iterator[StopRequest]:
    """In the block, record a stop signal and print ``message``; exit at once at a second signal."""
    request, requested_at = StopRequest(), 0.0
    # Launchers of several processes forward signals that the processes may also have received
    # directly. Slurm sends its signals to all processes of a job.
    is_forwarded = find_ranks().size > 1 or "SLURM_JOB_ID" in os.environ
    echo_seconds = 1.0 if is_forwarded else 0.0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal requested_at
        if request.signal is not None:
            if time.monotonic() - requested_at > echo_seconds:
                os._exit(exit_code(number))
            return
        request.signal, requested_at = number, time.monotonic()
        # Not print, which is not reentrant.
        with suppress(OSError):  # the pipe may be closed, as after Ctrl-C with `2>&1 | tee`
            os.write(2, f"\n{message}\n".encode())

    before = {number: signal.signal(number, handle) for number in stop_signals()}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stop_signals() -> list[int]:
    """Return the signals that request a stop: SIGTERM, SIGINT and Ctrl-Break."""
    numbers: list[int] = [signal.SIGTERM]
    # If it is ignored, as in a background job of a shell script, it stays ignored.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        numbers.append(signal.SIGINT)
    if hasattr(signal, "SIGBREAK"):  # Windows' Ctrl-Break, with which one process stops another
        numbers.append(signal.SIGBREAK)
    return numbers


def exit_code(number: int) -> int:
    """Return the exit code of a process that a signal has stopped: 130 for SIGINT, else 143."""
    return 128 + (number if number == signal.SIGINT else signal.SIGTERM)


def find_shortage(error: BaseException) -> str | None:
    """Return a message if an error comes from a lack of memory or threads, else None."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
        chain.append(cause)
    if any("can't start new thread" in str(link) for link in chain):
        return "cannot start a thread; raise the limit on processes (ulimit -u)"
    if any(map(is_out_of_memory, chain)):
        return "out of memory; lower training.batch_tokens or --batch-tokens"
    return None
