"""Standard input that can say whether another line is there already."""

import io
import select
import sys
from typing import Any, BinaryIO


class _Pipe(io.FileIO):
    polls = False  # if true, reading never waits

    def readinto(self, buffer: Any) -> int | None:
        is_ready = not self.polls or select.select([self], [], [], 0)[0]
        return super().readinto(buffer) if is_ready else None


class PolledReader(io.BufferedReader):
    """A binary file with the method ``waits``."""

    raw: _Pipe

    def waits(self) -> bool:
        """Return whether reading another line would wait for its writer, or is at the end."""
        self.raw.polls = True
        try:
            return b"\n" not in self.peek()
        finally:
            self.raw.polls = False


def poll(file: BinaryIO) -> BinaryIO:
    """Return a ``PolledReader`` of a file that is not yet read; Windows cannot poll pipes."""
    try:
        raw = _Pipe(file.fileno(), closefd=False)
    except OSError:  # it is in memory
        return file
    return file if sys.platform == "win32" else PolledReader(raw, 1 << 16)
