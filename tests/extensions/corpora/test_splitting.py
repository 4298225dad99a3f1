"""Splits: no side of a held-out pair is trained on, and text and seed alone decide."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from transformer_cli.base.errors import ConfigError
from transformer_cli.extensions.checks.digests import digest, fold_side
from transformer_cli.extensions.corpora import deciding
from transformer_cli.extensions.corpora.deciding import TEST, TRAIN, VAL, check_enough
from transformer_cli.extensions.corpora.settings import SplitConfig

Pairs = list[tuple[int, int]]
LEFT_OUT = -1


def draw(
    pairs: Pairs, val: int, test: int, seed: int = 1, may_hold_out: Sequence[bool] | None = None
) -> list[int]:
    """The splits of pairs."""
    split = SplitConfig(val=val, test=test, seed=seed)
    sides = [
        digest(f"{name} {pair[side]}" for pair in pairs) for side, name in enumerate(("src", "tgt"))
    ]
    allowed = np.array([True] * len(pairs) if may_hold_out is None else may_hold_out)
    held_out, shares = deciding.draw(split, allowed, sides)
    found = [LEFT_OUT if is_shared else TRAIN for is_shared in shares]
    for number, place in enumerate(held_out.tolist()):
        found[place] = TEST if number < test else VAL
    check_enough(split, len(pairs), len(held_out), found.count(TRAIN))
    return found


# Few different sides, so that most of them occur in several pairs.
some_pairs = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=4, max_size=40, unique=True
)


@settings(max_examples=40)
@given(some_pairs, st.integers(1, 4), st.integers(0, 4), st.integers(0, 5))
def test_no_side_is_both_trained_on_and_held_out(
    pairs: Pairs, val: int, test: int, seed: int
) -> None:
    try:
        found = draw(pairs, val, test, seed)
    except ConfigError:
        assume(False)
    assert (found.count(VAL), found.count(TEST)) == (val, test)
    for side in (0, 1):
        of = {
            split: [pair[side] for pair, own in zip(pairs, found, strict=True) if own == split]
            for split in (TRAIN, VAL, TEST)
        }
        assert not {*of[TRAIN]} & {*of[VAL], *of[TEST]}
        held_out = of[VAL] + of[TEST]
        assert len(set(held_out)) == len(held_out)


@settings(max_examples=40)
@given(some_pairs, st.randoms(use_true_random=False))
def test_the_order_of_the_pairs_does_not_matter(pairs: Pairs, shuffle: random.Random) -> None:
    mixed = pairs.copy()
    shuffle.shuffle(mixed)
    try:
        found = dict(zip(pairs, draw(pairs, 2, 1), strict=True))
    except ConfigError:
        assume(False)
    assert dict(zip(mixed, draw(mixed, 2, 1), strict=True)) == found


def test_where_sides_are_unique_nothing_is_left_out_and_seeds_differ() -> None:
    pairs = [(n, n) for n in range(200)]
    first, other = draw(pairs, 20, 30), draw(pairs, 20, 30, seed=2)
    assert LEFT_OUT not in first
    assert first != other
    assert draw(pairs, 20, 30) == first


def test_more_pairs_move_few_of_those_held_out() -> None:
    pairs = [(n, n) for n in range(1000)]
    before = draw(pairs, 50, 50)
    after = draw([*pairs, *((n, n) for n in range(1000, 1100))], 50, 50)[:1000]
    assert sum(one != other for one, other in zip(before, after, strict=True)) <= 30


def test_a_smaller_val_leaves_test_as_it_is() -> None:
    pairs = [(n, n) for n in range(300)]
    many, few = draw(pairs, 100, 50), draw(pairs, 10, 50)
    assert [each == TEST for each in many] == [each == TEST for each in few]


def test_only_what_may_be_held_out_is() -> None:
    pairs = [(n, n) for n in range(100)]
    found = draw(pairs, 10, 10, may_hold_out=[True] * 30 + [False] * 70)
    assert found[30:] == [TRAIN] * 70


@pytest.mark.parametrize(
    ("pairs", "val", "message"),
    [
        ([(1, 1), (2, 2)], 3, "of the 2 pairs left, 2 could be held out and 0 trained on"),
        ([(1, 1), (1, 2)], 1, "1 could be held out and 0 trained on"),
    ],
)
def test_too_few_pairs(pairs: Pairs, val: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        draw(pairs, val, 0)


def test_sides_are_compared_without_what_is_not_seen() -> None:
    same = ("ein Satz", "\ufeffein Satz", " ein\u00a0\u2003Satz\u200b", "e\u00adin\tSatz\f")
    assert {fold_side(each) for each in same} == {"ein Satz"}
    assert len({fold_side(each) for each in ("Satz", "satz", "Satz.", "Sätz", "Satz 1")}) == 5
