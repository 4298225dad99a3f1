"""Text that commands read from, and write to, a person, a pipe or a file."""

import errno
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import BinaryIO, TextIO

from transformer_cli.cli.display import log
from transformer_cli.compression import open_text, text_writer
from transformer_cli.errors import CorpusError, InputError


@contextmanager
def open_input(path: Path, option: str = "-i") -> Iterator[BinaryIO]:
    """Open standard input, or a file, which may be compressed; ``option`` names it.

    Raises:
        InputError: standard input is closed, or the file cannot be opened.
    """
    if str(path) == "-":
        if sys.stdin is None:  # as after `<&-` in a shell
            raise InputError(f"standard input is closed; name a file with {option}")
        yield sys.stdin.buffer
        return
    try:
        opened = open_text(path, once=True)
    except CorpusError as error:
        raise InputError(f"{error}; check {option}") from error
    with opened as file:
        yield file


@contextmanager
def output_stream(path: Path) -> Iterator[TextIO]:
    """Open standard output, or a device or a pipe, compressed if its name says so.

    Raises:
        InputError: it is closed.
    """
    if str(path) == "-":
        if sys.stdout is None:
            raise InputError("standard output is closed; name a file with -o")
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
        try:
            yield sys.stdout
            sys.stdout.flush()
        except OSError as error:
            # What is still buffered goes nowhere, or Python would complain when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            # Whoever read the output may have had enough, as in `translate … | head -1`.
            if not _is_closed_pipe(error):
                raise
        return
    try:
        with text_writer(FileIO(path, "w"), path) as file:
            yield file
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def _is_closed_pipe(error: OSError) -> bool:
    # Windows says "invalid argument".
    is_invalid = sys.platform == "win32" and error.errno == errno.EINVAL
    return is_invalid or isinstance(error, BrokenPipeError)


def prompt_for_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines that a person types, asked for on stderr."""
    end = "Ctrl-Z and Enter end" if sys.platform == "win32" else "Ctrl-D ends"
    log(f"one sentence a line; {end}")
    remaining = iter(lines)
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        line = next(remaining, None)
        if line is None:
            print(file=sys.stderr)
            return
        yield line
