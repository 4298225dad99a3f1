"""Turn signals into requests to stop."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from transformer_cli.ranks import Ranks

STOPPING = "stopping after this step with a checkpoint; once more stops at once"
_ECHO_SECONDS = 1.0


class StopRequest:
    """The signal that has requested a stop, if any."""

    def __init__(self, message: str) -> None:
        self.signal: int | None = None
        self._taken = 0.0
        self._message = message
        # torchrun and a sweep forward signals that their processes may have received as well: Slurm
        # sends its own to all of a job.
        is_forwarded = Ranks.from_env().size > 1 or "SLURM_JOB_ID" in os.environ
        self._echo = _ECHO_SECONDS if is_forwarded else 0.0

    def __call__(self) -> bool:
        """Return whether to stop."""
        return self.signal is not None

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Request a stop at the first signal; exit at the second."""
        if self.signal is not None:
            if time.monotonic() - self._taken > self._echo:
                os._exit(exit_code(number))
            return
        self.signal, self._taken = number, time.monotonic()
        # Not print, which is not reentrant.
        with suppress(OSError):  # the pipe may be closed, as after Ctrl-C with `2>&1 | tee`
            os.write(2, f"\n{self._message}\n".encode())


@contextmanager
def stop_requests(message: str = STOPPING) -> Iterator[StopRequest]:
    """Turn SIGINT, SIGTERM and Ctrl-Break into a request to stop while the block runs.

    SIGINT stays ignored if it is, as in a background job of a shell script.

    Args:
        message: said at the first signal.
    """
    request = StopRequest(message)
    before = {number: signal.signal(number, request.handle) for number in stop_signals()}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stop_signals() -> list[int]:
    """Return the signals that request a stop; SIGINT stays ignored if it is."""
    numbers: list[int] = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        numbers.append(signal.SIGINT)
    if hasattr(signal, "SIGBREAK"):  # Windows' Ctrl-Break, by which one process stops another
        numbers.append(signal.SIGBREAK)
    return numbers


def exit_code(number: int) -> int:
    """Return the exit code of a process that a signal has stopped: 130 or 143."""
    return 128 + (number if number == signal.SIGINT else signal.SIGTERM)
