"""The report: a section in Markdown for docs/benchmarks.md."""

from collections.abc import Iterable, Sequence

from benchmarks.gpu.parts import find_part
from benchmarks.gpu.runner import Outcome
from benchmarks.rounds import markdown_table


def render(head: str, outcomes: Iterable[Outcome], remark: str = "") -> str:
    """Return the section.

    Args:
        head: machine, date and command, a line each.
        outcomes: of the parts that have run, in order.
        remark: about parts that use the corpus.
    """
    sections = [_section(outcome, remark) for outcome in outcomes]
    return "\n\n".join(["## On a GPU", head, *sections]) + "\n"


def _section(outcome: Outcome, remark: str) -> str:
    part = find_part(outcome.name)
    lines = [f"### {part.title}", part.text]
    if remark and part.uses_corpus:
        lines.append(remark)
    # Rows with other columns are another table.
    for columns in dict.fromkeys(map(tuple, outcome.rows)):
        rows = [row for row in outcome.rows if tuple(row) == columns]
        cells = [[format_value(row[column]) for column in columns] for row in rows]
        lines.append(markdown_table(columns, cells))
    if not outcome.ok:
        lines.append(f"Not measured{' to the end' if outcome.rows else ''}: {_reason(outcome)}.")
    return "\n\n".join(lines)


def _reason(outcome: Outcome) -> str:
    """Return the last two lines of the note, which are the error and how the process ended."""
    return "; ".join(outcome.note.splitlines()[-2:])


def format_value(value: str | int | float) -> str:
    """Return a figure with three digits at least; a large one in full."""
    if isinstance(value, str):
        return value.replace("|", "\\|")
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def summarize(outcomes: Sequence[Outcome]) -> str:
    """Return a line per part."""
    return "\n".join(
        f"{outcome.name:14} {'ok' if outcome.ok else _reason(outcome)}, {outcome.seconds:.1f} s"
        for outcome in outcomes
    )
