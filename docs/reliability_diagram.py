"""Draws the reliability diagram of docs/results.md, from the table of its section "Confidence".

``python -m docs.reliability_diagram``
"""

import re
from collections.abc import Mapping
from html import escape
from pathlib import Path

PAGE = Path(__file__).with_name("results.md")
PICTURE = Path(__file__).parent / "images" / "reliability.svg"

SIDE, LEFT, TOP = 300, 56, 12
"""The square's side, and its place, in pixels."""
LEGEND = 200
"""The width of the column of names."""

Points = list[tuple[int, int]]

_STYLE = """\
text { font: 13px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #1f2328 }
line { stroke: #d0d7de }
.exact { stroke: #57606a; stroke-dasharray: 4 }
polyline { fill: none; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  line { stroke: #30363d }
  .exact { stroke: #8b949e }
}
"""
_COLORS = ("#0969da", "#bf8700", "#1a7f37", "#cf222e")


def read_curves(page: str) -> dict[str, Points]:
    """Return each text's points: the mean estimate and the share that is good, in percent."""
    section = page.partition("\n## Confidence\n")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("| ")
    ]
    names, tenths = rows[0][1:], [row[1:] for row in rows[1:] if row[0].isdigit()]
    points = [[_read_point(cell) for cell in row] for row in tenths]
    return {
        name: list(column) for name, column in zip(names, zip(*points, strict=True), strict=True)
    }


def _read_point(cell: str) -> tuple[int, int]:
    estimate, good = re.findall(r"(\d+) %", cell)
    return int(estimate), int(good)


def draw(curves: Mapping[str, Points]) -> str:
    """Return the curves as an SVG, with the diagonal that exact estimates would follow."""
    width, height = LEFT + SIDE + LEGEND, TOP + SIDE + 48
    parts = [_segment((0, 0), (100, 100), ' class="exact"')]
    for share in range(0, 101, 25):
        x, y = _place((share, share))
        parts += [_segment((share, 0), (share, 100)), _segment((0, share), (100, share))]
        parts.append(f'<text x="{x}" y="{TOP + SIDE + 18}" text-anchor="middle">{share} %</text>\n')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{share} %</text>\n')
    for number, (name, points) in enumerate(curves.items()):
        color = _COLORS[number]
        places = [_place(point) for point in points]
        path = " ".join(f"{x},{y}" for x, y in places)
        parts.append(f'<polyline points="{path}" stroke="{color}"/>\n')
        parts += [f'<circle cx="{x}" cy="{y}" r="3" fill="{color}"/>\n' for x, y in places]
        y = TOP + 20 * (number + 1)
        parts.append(f'<circle cx="{LEFT + SIDE + 20}" cy="{y - 4}" r="5" fill="{color}"/>\n')
        parts.append(f'<text x="{LEFT + SIDE + 32}" y="{y}">{escape(name)}</text>\n')
    x = LEFT + SIDE // 2
    parts.append(
        f'<text x="{x}" y="{TOP + SIDE + 40}" text-anchor="middle">estimated probability</text>\n'
        f'<text transform="translate(12 {TOP + SIDE // 2}) rotate(-90)" '
        'text-anchor="middle">share that is good</text>\n'
    )
    described = (
        "Share of good translations by their estimated probability, in percent: "
        + "; ".join(
            f"{name}: " + ", ".join(f"{good} at {estimate}" for estimate, good in points)
            for name, points in curves.items()
        )
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{escape(described)}">\n'
        f"<style>\n{_STYLE}</style>\n{''.join(parts)}</svg>\n"
    )


def _place(point: tuple[int, int]) -> tuple[int, int]:
    """Return where a point in percent is in the picture."""
    return LEFT + round(SIDE * point[0] / 100), TOP + SIDE - round(SIDE * point[1] / 100)


def _segment(start: tuple[int, int], end: tuple[int, int], more: str = "") -> str:
    (x1, y1), (x2, y2) = _place(start), _place(end)
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"{more}/>\n'


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(draw(read_curves(PAGE.read_text(encoding="utf-8"))), encoding="utf-8")
    print(PICTURE)


if __name__ == "__main__":
    main()
