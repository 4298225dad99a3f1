"""What commands print: results, errors and tables."""

import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress

from transformer_cli.base.errors import make_visible
from transformer_cli.base.messages import printable

# Errors raised outside cli/ name a parameter as in Python, e.g. `beam_size`. They are shown with
# the option's name instead. Text that a message quotes stays unchanged.
_PARAMETER = re.compile(r"(?<!\w)'[^']*'(?!\w)|`([a-z_]+)`")


def say(text: str) -> None:
    """Write text to stdout; escape control characters, which file names may contain."""
    import typer

    typer.echo(make_visible(text))


def print_error(message: str, others: Sequence[str] = ()) -> None:
    """Write an error to stderr: a line for ``message``, then a line for each of ``others``."""
    with suppress(OSError):  # nobody reads it, but the exit code shows the error
        for line in (message, *others):
            named = _PARAMETER.sub(_name_option, " ".join(line.split()))
            print(f"transformer-cli: error: {printable(named)}", file=sys.stderr)


def _name_option(found: re.Match[str]) -> str:
    return f"--{found[1].replace('_', '-')}" if found[1] else found[0]


def plus_minus(value: float | None) -> str:
    """Return ' ±' and ``value``, half a confidence interval or a deviation; '' if it is None."""
    return "" if value is None else f" ±{value:5.2f}"


def align_columns(rows: Iterable[Sequence[str]], left: int = 1) -> list[str]:
    """Return rows as lines, with the first ``left`` columns aligned left and the others right."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
