"""Splits: no side of a held-out pair is trained on, and text and seed alone decide."""

import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from transformer_cli.config.data_schema import SplitConfig
from transformer_cli.data.corpus import Digests, fold_side
from transformer_cli.data.selection import LEFT_OUT, TEST, TRAIN, VAL, Sides, draw_splits
from transformer_cli.errors import CorpusError

Pairs = list[tuple[int, int]]


def sides_of(pairs: Pairs) -> Sides:
    src, tgt = Digests(), Digests()
    for one, other in pairs:
        src.add(f"source {one}")
        tgt.add(f"target {other}")
    return src.numbers, tgt.numbers


def draw(pairs: Pairs, val: int, test: int, seed: int = 1) -> list[int]:
    every = np.ones(len(pairs), bool)
    split = SplitConfig(val=val, test=test, seed=seed)
    return [int(each) for each in draw_splits(sides_of(pairs), every, every, split)]


# Few different sides, so that most of them occur in several pairs.
some_pairs = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=4, max_size=40, unique=True
)


@given(some_pairs, st.integers(1, 4), st.integers(0, 4), st.integers(0, 5))
def test_no_side_is_both_trained_on_and_held_out(
    pairs: Pairs, val: int, test: int, seed: int
) -> None:
    try:
        found = draw(pairs, val, test, seed)
    except CorpusError:
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


@given(some_pairs, st.randoms(use_true_random=False))
def test_the_order_of_the_pairs_does_not_matter(pairs: Pairs, shuffle: random.Random) -> None:
    mixed = pairs.copy()
    shuffle.shuffle(mixed)
    try:
        found = dict(zip(pairs, draw(pairs, 2, 1), strict=True))
    except CorpusError:
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
    every = np.ones(100, bool)
    own = np.arange(100) < 30
    found = draw_splits(sides_of(pairs), every, own, SplitConfig(val=10, test=10))
    assert (found[30:] == TRAIN).all()


@pytest.mark.parametrize(
    ("pairs", "val", "message"),
    [
        ([(1, 1), (2, 2)], 3, "of 2 that are left, 2 could be held out and 0 trained on"),
        ([(1, 1), (1, 2)], 1, "1 could be held out and 0 trained on"),
    ],
)
def test_too_few_pairs(pairs: Pairs, val: int, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        draw(pairs, val, 0)


def test_sides_are_compared_without_what_is_not_seen() -> None:
    same = ("ein Satz", "\ufeffein Satz", " ein\u00a0\u2003Satz\u200b", "e\u00adin\tSatz\f")
    assert {fold_side(each) for each in same} == {"ein Satz"}
    assert len({fold_side(each) for each in ("Satz", "satz", "Satz.", "Sätz", "Satz 1")}) == 5


def test_memory_is_twenty_bytes_a_pair() -> None:
    count = 200_000
    src, tgt = np.random.default_rng(1).integers(1, 2**63, (2, count)).astype(np.uint64)
    every = np.ones(count, bool)
    tracemalloc.start()
    try:
        draw_splits((src, tgt), every, every, SplitConfig(val=100, test=100))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 30 * count
