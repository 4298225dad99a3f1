"""What the filters took of a corpus, as one self-contained HTML page."""

from transformer_cli.config.data_schema import CorpusData
from transformer_cli.data.preparing import Cleaning
from transformer_cli.report.rendering import render_page

_LONGEST = 500
"""Characters of a side that are shown."""


def render(cleaning: Cleaning, data: CorpusData, title: str) -> str:
    """Render the page.

    Args:
        cleaning: what it says.
        data: the settings that were applied.
        title: what the configuration is called.

    Raises:
        MissingExtraError: Jinja is not installed.
    """
    return render_page(
        "cleaning", None, {}, cleaning=cleaning, data=data, title=title, visible=_visible
    )


def _visible(line: str) -> str:
    """Return a line with its control characters as escapes, cut if it is long."""
    shown = line if len(line) <= _LONGEST else f"{line[:_LONGEST]} …"
    return "".join(
        each if each.isprintable() or each.isspace() else ascii(each)[1:-1] for each in shown
    )
