"""Percentiles of a histogram are those of its values, one by one."""

from fractions import Fraction
from itertools import accumulate

import numpy as np
from hypothesis import given, strategies as st

from transformer_cli.data.store import PERCENTILES, percentiles


@given(st.lists(st.integers(0, 30), min_size=1, max_size=300), st.integers(1, 100))
def test_percentiles_are_those_of_the_sorted_values(values: list[int], share: int) -> None:
    shares = [share, *PERCENTILES]
    expected = np.percentile(values, shares, method="inverted_cdf")
    assert percentiles(np.bincount(values), shares) == expected.astype(int).tolist()


COUNTS = st.lists(st.just(0) | st.integers(0, 9) | st.integers(0, 10**9), min_size=1, max_size=60)


@given(COUNTS.filter(any))
def test_a_percentile_is_the_first_value_that_its_share_is_not_above(counts: list[int]) -> None:
    up_to = list(accumulate(counts))
    expected = [
        next(value for value, below in enumerate(up_to) if Fraction(below, up_to[-1]) >= share)
        for share in (Fraction(each, 100) for each in PERCENTILES)
    ]
    assert percentiles(np.array(counts), PERCENTILES) == expected


@given(st.integers(1, 10**12))
def test_a_share_that_ends_with_a_value_is_that_value(hundredth: int) -> None:
    counts = np.array([50, 40, 9, 1]) * hundredth
    assert percentiles(counts, PERCENTILES) == [0, 1, 2, 3]
