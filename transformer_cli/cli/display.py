"""Messages and progress bars on stderr; bars only on a terminal."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from transformer_cli.base.errors import make_visible, shorten_middle
from transformer_cli.base.locations import hide_credentials
from transformer_cli.base.ranks import Ranks

if TYPE_CHECKING:
    from tqdm import tqdm

# Characters of a line on stderr: a message may quote what it was given, of any length.
_MAX_LINE = 1000
# Errors from below cli/ name a parameter as Python does, `beam_size` say; on the command line it
# is an option. Text that a message quotes stays as it is.
_PARAMETER = re.compile(r"(?<!\w)'[^']*'(?!\w)|`([a-z_]+)`")


def say(text: str) -> None:
    """Write lines about files and runs to stdout; names in them may hold anything."""
    import typer

    typer.echo(make_visible(text))


def log(message: str) -> None:
    """Write one line to stderr, above any bar, on the main rank."""
    if Ranks.from_env().is_main:
        _write(message)


def print_error(message: str, others: Sequence[str] = ()) -> None:
    """Write an error to stderr: this line, and one for each of ``others``."""
    with suppress(OSError):  # nobody reads it: the exit code tells
        for line in (message, *others):
            shown = _printable(_name_options(" ".join(line.split())))
            print(f"transformer-cli: error: {shown}", file=sys.stderr)


def warn(where: str, what: object) -> None:
    """Write a warning about a file or a run to stderr, on any rank."""
    _write(f"warning: {' '.join(f'{where}: {what}'.split())}")


def _write(message: str) -> None:
    from tqdm import tqdm

    with suppress(OSError):  # nobody reads it any more, or the disk of the log is full
        tqdm.write("\n".join(map(_printable, message.split("\n"))), file=sys.stderr)


def _name_options(message: str) -> str:
    """Return an error from below cli/ with our options in place of Python's parameters."""

    def name(found: re.Match[str]) -> str:
        return f"--{found[1].replace('_', '-')}" if found[1] else found[0]

    return _PARAMETER.sub(name, message)


def _printable(line: str) -> str:
    return shorten_middle(hide_credentials(make_visible(line)), _MAX_LINE)


def bar(
    total: int | None,
    label: str,
    unit: str,
    initial: int = 0,
    hidden: bool = False,
    items: Iterable[Any] | None = None,
) -> "tqdm[Any]":
    """Return a progress bar, over ``items`` if given; silent where stderr is no terminal."""
    from tqdm import tqdm

    # A notebook's commands have a terminal too, but it cannot move its cursor up from a nested
    # bar. jupyter_client sets this for kernels.
    is_notebook = "JPY_PARENT_PID" in os.environ
    is_shown = Ranks.from_env().is_main and not is_notebook and not hidden
    return tqdm(
        items,
        make_visible(label),
        total,
        unit=unit,
        initial=initial,
        leave=False,
        dynamic_ncols=True,
        disable=None if is_shown else True,  # None asks for a terminal
        file=sys.stderr,
    )


@contextmanager
def describe(shown: "tqdm[Any]", what: str, label: str) -> Iterator[None]:
    """Show in a bar what is done now; afterwards its label again."""
    shown.set_description_str(what)
    try:
        yield
    finally:
        shown.set_description_str(label)


@contextmanager
def scoring_bar(total: int, label: str) -> Iterator[Callable[[int], object]]:
    """Yield what counts translated sentences; once all are, a clock shows that they are scored."""
    stopping = Event()
    with bar(total, label, " sentences") as shown:

        def count(sentences: int) -> None:
            shown.update(sentences)
            if shown.n >= total:
                shown.bar_format = "{desc}: scoring [{elapsed}]"
                shown.refresh()

        def tick() -> None:
            while not stopping.wait(1.0):
                shown.refresh()

        clock = Thread(target=tick, daemon=True)
        if not shown.disable:
            clock.start()
        try:
            yield count
        finally:
            stopping.set()
            if clock.is_alive():
                clock.join()  # else it might draw the bar again once it is closed


def line_bar(lines: Iterable[str], label: str) -> Iterable[str]:
    """Iterate over ``lines`` with a bar."""
    return bar(None, label, " lines", items=lines)


def pair_bar(pairs: Iterable[tuple[str, str]], label: str) -> Iterable[tuple[str, str]]:
    """Iterate over ``pairs`` of lines with a bar."""
    return bar(None, label, " pairs", items=pairs)


def plus_minus(value: float | None) -> str:
    """Return what stands behind a score in a column: half of an interval, or a deviation."""
    return "" if value is None else f" ±{value:5.2f}"


def align_columns(rows: Iterable[Sequence[str]], left: int = 1) -> list[str]:
    """Return lines with the first ``left`` columns aligned left and the others right."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
