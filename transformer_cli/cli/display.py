"""What commands print: results, errors and tables."""

import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress

from transformer_cli.base.errors import make_visible
from transformer_cli.base.messages import printable

# Errors from below cli/ name a parameter as Python does, `beam_size` say; on the command line it
# is an option. Text that a message quotes stays as it is.
_PARAMETER = re.compile(r"(?<!\w)'[^']*'(?!\w)|`([a-z_]+)`")


def say(text: str) -> None:
    """Write lines about files and runs to stdout; names in them may hold anything."""
    import typer

    typer.echo(make_visible(text))


def print_error(message: str, others: Sequence[str] = ()) -> None:
    """Write an error to stderr: this line, and one for each of ``others``."""
    with suppress(OSError):  # nobody reads it: the exit code tells
        for line in (message, *others):
            shown = printable(_name_options(" ".join(line.split())))
            print(f"transformer-cli: error: {shown}", file=sys.stderr)


def _name_options(message: str) -> str:
    """Return an error from below cli/ with our options in place of Python's parameters."""

    def name(found: re.Match[str]) -> str:
        return f"--{found[1].replace('_', '-')}" if found[1] else found[0]

    return _PARAMETER.sub(name, message)


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
