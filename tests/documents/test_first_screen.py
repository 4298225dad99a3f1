"""The pictures on README's first screen show what the documents say."""

import re
from xml.etree import ElementTree

from docs import charts, recording
from documents.commands import ROOT, commands

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = charts.PAGE.read_text(encoding="utf-8")
SVG = "{http://www.w3.org/2000/svg}"


def test_the_charts_have_the_figures_of_the_benchmarks() -> None:
    drawn = charts.draw(charts.read_charts(PAGE))
    assert charts.PICTURE.read_text(encoding="utf-8") == drawn, "run `make pictures`"


def test_a_chart_follows_its_figures() -> None:
    (speed, quality) = charts.read_charts(PAGE)
    names = [name for name, _ in speed.bars]
    assert {"JoeyNMT", "Marian", charts.OURS} <= set(names)
    changed = charts.read_charts(PAGE.replace(dict(speed.bars)["JoeyNMT"], "9,999"))
    assert ("JoeyNMT", "9,999") in changed[0].bars
    assert dict(quality.bars)[charts.OURS] in README


def test_the_recording_shows_commands_of_the_readme_and_their_output() -> None:
    picture = ElementTree.parse(recording.PICTURE).getroot()
    *_, last = picture.iter(f"{SVG}g")
    rows = ["".join(text.itertext()) for text in last.iter(f"{SVG}text")]
    shown = {command.line for command in commands(ROOT / "README.md")}
    assert set(recording.COMMANDS) <= shown
    *_, prompt, translation = rows
    assert prompt.startswith(recording.PROMPT)
    assert f"\n{translation}\n" in README


def test_the_recording_can_be_read_without_animation() -> None:
    frames = [recording.Frame(0.0, ("$ a", "b & <c>")), recording.Frame(2.0, ("end",))]
    picture = recording.draw([*frames, recording.Frame(5.0, ("end",))])
    groups = list(ElementTree.fromstring(picture).iter(f"{SVG}g"))
    assert [group.get("visibility") for group in groups] == ["hidden", None]
    assert ["".join(text.itertext()) for text in groups[0]] == ["$ a", "b & <c>"]
    assert "prefers-reduced-motion: no-preference" in picture
    assert re.search(r"prefers-color-scheme: dark", picture)
