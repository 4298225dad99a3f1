"""The check of hostile text finds all patterns, and what grows with the square of its text."""

import re

import pytest

from benchmarks import hostile
from benchmarks.hostile import LONG, SHAPES, Subject, find_growth
from benchmarks.hostile_patterns import attacks, find_patterns
from transformer_cli.base.registry import is_installed


class Clock:
    """CPU time that only text takes."""

    seconds = 0.0

    def process_time(self) -> float:
        return self.seconds

    def work(self, power: float, text: str) -> None:
        self.seconds += 1e-6 * len(text) ** power


@pytest.mark.parametrize(("power", "is_found"), [(0.5, False), (1, False), (1.2, False), (2, True)])
def test_growth_beyond_two_and_a_half_is_found(
    power: float, is_found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(hostile, "time", clock)
    subject = Subject("x", lambda text: clock.work(power, text), SHAPES)
    assert (find_growth(subject, SHAPES["letters"], LONG) is not None) == is_found


def test_patterns_are_found_where_modules_keep_them() -> None:
    found = {own.place: own for own in find_patterns()}
    assert found["transformer_cli.config.setting_tree._NUMBER"].is_anchored
    assert not found["transformer_cli.text.lines._VISIBLE"].is_anchored
    in_calls = "transformer_cli.base.locations:"  # re.sub('…')
    assert any(place.startswith(in_calls) for place in found)
    if is_installed("documents"):
        assert "transformer_cli.extensions.documents.xml._INNER" in found


@pytest.mark.parametrize(
    ("pattern", "attack"),
    [
        ("<!--.*?-->", "<!--"),
        (r"a\s+b", " "),
        ("(?:x|y){2}z*!", "z"),
        ("[^a]b|c", "b"),
        (rb"[\w.]+@", "."),
    ],
)
def test_attacks_repeat_parts_of_what_a_pattern_fits(pattern: str | bytes, attack: str) -> None:
    texts = [shape(100) for shape in attacks(re.compile(pattern)).values()]
    assert any(attack * (60 // len(attack)) in text for text in texts)
