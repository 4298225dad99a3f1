"""Draws README's bar charts of speed and quality from the tables in docs/benchmarks.md.

``python -m docs.charts``
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

PAGE = Path(__file__).with_name("benchmarks.md")
PICTURE = Path(__file__).parent / "images" / "charts.svg"

OURS = "transformer-cli"
WIDTH, BAR, GAP = 600, 22, 8
LEFT, RIGHT = 190, 90
"""Space for the names and for the figures, in pixels."""

_STYLE = """\
text { font: 14px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #1f2328 }
.title { font-weight: 600 }
.bar { fill: #afb8c1 }
.ours { fill: #0969da }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .bar { fill: #484f58 }
  .ours { fill: #388bfd }
}
"""


@dataclass(frozen=True)
class Chart:
    """Bars of one measure: names and figures, as the page writes them."""

    title: str
    bars: tuple[tuple[str, str], ...]


def read_charts(page: str) -> list[Chart]:
    """Return the charts of the figures in the text of docs/benchmarks.md."""
    section = page.partition("\n## Training\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([-\w. ]+, \w+) \| ([\d,]+) \|", section, re.MULTILINE)
    named = [(_shown(name), figure) for name, figure in rows if not name.startswith("textbook")]
    found = re.search(
        r"^\| .*lowercased BLEU.* \| ([\d.]+) \| ([\d.]+), the best published", page, re.MULTILINE
    )
    assert found is not None, "docs/benchmarks.md has no row with the BLEU of the best model"
    return [
        Chart("Training on 2 CPU cores, target tokens per second", tuple(named)),
        Chart(
            "Multi30k German-English, lowercased BLEU, from its text alone",
            (("best published", found[2]), (OURS, found[1])),
        ),
    ]


def _shown(name: str) -> str:
    """Return a program's name without its version, with the precision if it is not float32."""
    program, _, precision = name.partition(", ")
    program = program.partition(" ")[0]
    return program if precision == "float32" else f"{program}, {precision}"


def draw(charts: Sequence[Chart]) -> str:
    """Return charts as an SVG, one below another, for light and dark pages."""
    parts, y = [], 8
    for chart in charts:
        parts.append(f'<text class="title" x="0" y="{y + 14}">{escape(chart.title)}</text>\n')
        y += BAR + GAP
        values = [float(figure.replace(",", "")) for _, figure in chart.bars]
        for (name, figure), value in zip(chart.bars, values, strict=True):
            length = round((WIDTH - LEFT - RIGHT) * value / max(values))
            kind = "bar ours" if name.startswith(OURS) else "bar"
            size = f'width="{length}" height="{BAR}"'
            parts.append(
                f'<text x="{LEFT - 10}" y="{y + 16}" text-anchor="end">{escape(name)}</text>\n'
                f'<rect class="{kind}" x="{LEFT}" y="{y}" {size} rx="3"/>\n'
                f'<text x="{LEFT + length + 8}" y="{y + 16}">{figure}</text>\n'
            )
            y += BAR + GAP
        y += 2 * GAP
    described = "; ".join(
        f"{chart.title}: " + ", ".join(f"{name} {figure}" for name, figure in chart.bars)
        for chart in charts
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" '
        f'height="{y}" role="img" aria-label="{escape(described)}">\n'
        f"<style>\n{_STYLE}</style>\n{''.join(parts)}</svg>\n"
    )


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(draw(read_charts(PAGE.read_text(encoding="utf-8"))), encoding="utf-8")
    print(PICTURE)


if __name__ == "__main__":
    main()
