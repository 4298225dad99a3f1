"""Text that commands read from, and write to, a person, a pipe or a file."""

import errno
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

from transformer_cli.cli.display import log
from transformer_cli.compression import open_text, text_writer
from transformer_cli.errors import CorpusError, InputError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer


def open_closed_streams() -> None:
    """Put the null device in the place of each standard stream that is closed, as by ``2>&-``.

    Any file could get its descriptor otherwise, and Python prints to stdout where there is no
    stderr. ``sys.stdin`` and ``sys.stdout`` still tell that they were closed.
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
    """Write what standard output still buffers.

    Returns:
        why that failed, unless whoever reads it has had enough.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return None if _is_closed_pipe(error) else error
    return None


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
            # What is still buffered goes nowhere, or Python would print_error when it ends.
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
