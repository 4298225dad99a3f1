"""Messages and progress bars on stderr; bars appear only on a terminal, in the main process."""

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from transformer_cli.base.errors import make_visible, shorten_middle
from transformer_cli.base.locations import hide_credentials
from transformer_cli.base.ranks import find_ranks

if TYPE_CHECKING:
    from tqdm import tqdm

Item = TypeVar("Item")

# Maximum characters of a line on stderr: a message may quote input of any length.
_MAX_LINE = 1000


def log(message: str) -> None:
    """Write a message to stderr, above any progress bar, if this is the main process (rank 0)."""
    if find_ranks().is_main:
        _write(message)


def warn(where: str, what: object) -> None:
    """Write a warning about ``where``, a file or a run, to stderr, in any process."""
    _write(f"warning: {' '.join(f'{where}: {what}'.split())}")


def _write(message: str) -> None:
    from tqdm import tqdm

    with suppress(OSError):  # nobody reads it any more, or the disk of the log is full
        tqdm.write("\n".join(map(printable, message.split("\n"))), file=sys.stderr)


def printable(line: str) -> str:
    """Return a line that is safe to show: no control characters, no secrets, and not too long."""
    return shorten_middle(hide_credentials(make_visible(line)), _MAX_LINE)


def bar(
    total: int | None,
    label: str,
    unit: str,
    initial: int = 0,
    hidden: bool = False,
    items: Iterable[Any] | None = None,
) -> "tqdm[Any]":
    """Return a progress bar, over ``items`` if given; it is hidden if stderr is not a terminal."""
    from tqdm import tqdm

    # Commands in a notebook have a terminal too, but it cannot move the cursor up from a nested
    # bar. jupyter_client sets this variable for kernels.
    is_notebook = "JPY_PARENT_PID" in os.environ
    is_shown = find_ranks().is_main and not is_notebook and not hidden
    return tqdm(
        items,
        make_visible(label),
        total,
        unit=unit,
        initial=initial,
        leave=False,
        dynamic_ncols=True,
        disable=None if is_shown else True,  # None: only on a terminal
        file=sys.stderr,
    )


def show_progress(items: Iterable[Item], label: str, unit: str = " lines") -> Iterable[Item]:
    """Return an iterable of the items; iterating over it shows a progress bar."""
    return bar(None, label, unit, items=items)


def duration(seconds: float) -> str:
    """Format an estimated number of seconds in a suitable unit, e.g. as '12 min'."""
    minutes, hours, days = seconds / 60, seconds / 3600, seconds / 86400
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if minutes < 90:
        return f"{round(minutes)} min"
    return f"{hours:.1f} h" if hours < 48 else f"{days:.1f} days"


def size(count: int) -> str:
    """Format a number of bytes in MB or GB (powers of 1,000)."""
    return f"{count / 1e9:.1f} GB" if count >= 999.5e6 else f"{max(1, round(count / 1e6))} MB"
