"""Standard input that can say whether another line is there already."""

import io
import os
import select
import stat
import sys
from typing import Any, BinaryIO


class _Pipe(io.FileIO):
    polls = False  # if true, reading never waits

    def readinto(self, buffer: Any) -> int | None:
        return None if self.polls and not self.is_ready() else super().readinto(buffer)

    def is_ready(self) -> bool:
        return bool(select.select([self], [], [], 0)[0])


class PolledReader(io.BufferedReader):
    """A binary file with the method ``waits``."""

    raw: _Pipe

    def waits(self) -> bool:
        """Return whether reading more would wait for the writer, or is at the end."""
        self.raw.polls = True
        try:
            start = self.peek()
        finally:
            self.raw.polls = False
        return b"\n" not in start and not (start and self.raw.is_ready())


def poll(file: BinaryIO) -> BinaryIO:
    """Return a ``PolledReader`` of a pipe or socket that is not yet read, or else ``file`` itself.

    Windows cannot poll pipes.
    """
    try:
        number = file.fileno()
    except OSError:  # it is in memory
        return file
    kind = os.fstat(number).st_mode
    is_pipe = stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)
    if sys.platform == "win32" or not is_pipe:
        return file
    return PolledReader(_Pipe(number, closefd=False), 1 << 16)
