"""Sides that have slipped are told, with the line and the direction; nothing else is."""

import random

import pytest
from copied_text import draw_lines

from extensions.checks.test_findings import clean
from transformer_cli.extensions.checks import shift
from transformer_cli.extensions.checks.shift import Shift, ShiftCheck

Pairs = list[tuple[str, str]]
CORPUS = clean("shift", 3000, words_known=14)


def find_shifts(pairs: Pairs) -> list[Shift]:
    check = ShiftCheck()
    check.add(pairs)
    return check.find_shifts()


def slipped(pairs: Pairs, line: int, offset: int) -> Pairs:
    """The pairs with lines cut from one side, so that source line n goes with n + offset."""
    sides = [[src for src, _ in pairs], [tgt for _, tgt in pairs]]
    side = sides[0 if offset > 0 else 1]
    del side[line : line + abs(offset)]
    return list(zip(*sides, strict=False))


@pytest.mark.long_cases
@pytest.mark.parametrize("offset", [-3, -2, -1, 1, 2, 3])
@pytest.mark.parametrize(("lines", "cut"), [(300, 0), (600, 300), (3000, 1700), (3000, 2500)])
def test_a_lost_line_is_found_where_it_was_lost(lines: int, cut: int, offset: int) -> None:
    pairs = slipped(CORPUS[:lines], cut, offset)
    (found,) = find_shifts(pairs)
    assert found.offset == offset
    assert abs(found.first - cut) <= found.margin == 32
    assert found.end == len(pairs)


def test_a_stretch_between_two_lost_lines_has_an_end() -> None:
    pairs = slipped(slipped(CORPUS, 1000, 1), 2000, -1)
    (found,) = find_shifts(pairs)
    assert found.offset == 1
    assert abs(found.first - 1000) <= found.margin
    assert abs(found.end - 2000) <= found.margin
    assert found.describe(len(pairs)).startswith(
        f"from about line {found.first + 1:,} to about line {found.end:,} (± 32) source "
        "line n matches target line n+1: a line is missing in the source, or one too many"
    )


def test_a_second_lost_line_is_a_stretch_of_its_own() -> None:
    first, second = find_shifts(slipped(slipped(CORPUS, 1000, -1), 2000, -1))
    assert (first.offset, second.offset) == (-1, -2)
    assert first.end == second.first


def test_what_stands_on_both_sides_tells_where_lengths_do_not() -> None:
    draws = random.Random(0)
    numbers = [draws.randrange(1000, 9999) for _ in range(400)]
    pairs = [(f"Seite {number} .", f"page {number} .") for number in numbers]
    assert find_shifts(pairs) == []
    (found,) = find_shifts(slipped(pairs, 0, 1))
    assert (found.offset, found.first) == (1, 0)


def test_longer_corpora_take_larger_blocks_and_no_more_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shift, "BATCH_PAIRS", 32)
    monkeypatch.setattr(shift, "_MAX_BLOCKS", 16)
    (found,) = find_shifts(slipped(CORPUS, 1500, 1))
    assert found.margin == 2 * 256
    assert abs(found.first - 1500) <= found.margin


def _shuffled(pairs: Pairs) -> Pairs:
    targets = [tgt for _, tgt in pairs]
    random.Random(1).shuffle(targets)
    return [(src, tgt) for (src, _), tgt in zip(pairs, targets, strict=True)]


GOOD = {
    "clean": CORPUS,
    "short": CORPUS[:40],
    "no more than neighbours": CORPUS[:5],
    "sides that have nothing to do with each other": _shuffled(CORPUS),
    "by length": sorted(CORPUS, key=lambda pair: len(pair[0])),
    "by words": sorted(CORPUS),
    "each side by length": list(
        zip(*(sorted(side, key=len) for side in zip(*CORPUS, strict=True)), strict=True)
    ),
    "one pair": CORPUS[:1] * 2000,
    "each three times": [pair for pair in CORPUS[:700] for _ in range(3)],
    "blank": [("", "")] * 500,
    "every other one blank": [pair for each in CORPUS[:500] for pair in (each, ("", ""))],
    **{f"{few} pairs in turn": CORPUS[:few] * 500 for few in (2, 3, 4, 7)},
}


@pytest.mark.parametrize("name", GOOD)
def test_there_is_no_false_alarm(name: str) -> None:
    assert find_shifts(GOOD[name]) == []


@pytest.mark.long_cases
@pytest.mark.parametrize("first", range(0, 2400, 200))
def test_there_is_none_of_any_two_lines_in_turn(first: int) -> None:
    for pair in range(first, first + 200, 10):
        assert find_shifts(CORPUS[pair : pair + 2] * 200) == []


def test_there_is_none_where_each_side_is_the_other() -> None:
    for symbols, length in ((2, 3), (10, 10), (300, 8)):
        lines = draw_lines("train", symbols, length, 4000)
        assert find_shifts([(line, line) for line in lines]) == []
