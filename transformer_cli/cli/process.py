"""A command as a process: its standard streams, the signals that stop it, and what runs short."""

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
    """Put the null device in the place of each standard stream that is closed, as by ``2>&-``.

    Any file could get its descriptor otherwise, and Python prints to stdout where there is no
    stderr.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


class _Output(FileIO):
    """Standard output, which is named in its errors."""

    def write(self, data: "Buffer", /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = "standard output"
            raise


def use_utf8() -> None:
    """Read and write UTF-8 whatever the locale; Windows' pipes would have its code page."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # None where it is closed
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
    """Write what standard output still buffers; return why that failed, if somebody reads it."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        return discard_output(error)
    return None


def discard_output(error: OSError) -> OSError | None:
    """Write no more to standard output; return why it cannot be, if somebody reads it."""
    # Or Python would try to write what is buffered when it ends, and exit with its own code.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return None if is_closed_pipe(error) else error


def is_closed_pipe(error: OSError) -> bool:
    """Return whether the reader of a pipe has had enough, as in ``translate … | head -1``."""
    # Windows says "invalid argument".
    is_invalid = sys.platform == "win32" and error.errno == errno.EINVAL
    return is_invalid or isinstance(error, BrokenPipeError)


# --- Signals ---------------------------------------------------------------------------------

_ECHO_SECONDS = 1.0


class StopRequest:
    """A request to stop."""

    signal: int | None = None  # None: there was none yet


@contextmanager
def stop_requests(message: str) -> Iterator[StopRequest]:
    """Take signals for a request to stop, answered by ``message``; the second one exits at once."""
    request, requested_at = StopRequest(), 0.0
    # What starts several processes forwards signals that they may have received as well. Slurm
    # sends its own to all of a job.
    is_forwarded = find_ranks().size > 1 or "SLURM_JOB_ID" in os.environ
    echo = _ECHO_SECONDS if is_forwarded else 0.0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal requested_at
        if request.signal is not None:
            if time.monotonic() - requested_at > echo:
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
    # It stays ignored if it is, as in a background job of a shell script.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        numbers.append(signal.SIGINT)
    if hasattr(signal, "SIGBREAK"):  # Windows' Ctrl-Break, by which one process stops another
        numbers.append(signal.SIGBREAK)
    return numbers


def exit_code(number: int) -> int:
    """Return the exit code of a process that a signal has stopped: 130 or 143."""
    return 128 + (number if number == signal.SIGINT else signal.SIGTERM)


def find_shortage(error: BaseException) -> str | None:
    """Return a message if an error is for want of memory or threads, else None."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
        chain.append(cause)
    if any("can't start new thread" in str(link) for link in chain):
        return "no thread can be started; raise the limit of processes (ulimit -u)"
    if any(map(is_out_of_memory, chain)):
        return "out of memory; lower training.batch_tokens or --batch-tokens"
    return None
