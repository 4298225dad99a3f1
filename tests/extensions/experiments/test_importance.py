import itertools
import random

import numpy as np
import pytest

from transformer_cli.extensions.experiments.importance import explain


def test_a_category_explains_what_an_analysis_of_variance_of_ranks_says() -> None:
    generator = np.random.default_rng(1)
    points = list(itertools.product([0.1, 0.2, 0.3], ["relu", "gelu"], [True, False]))
    generator.shuffle(points)
    scores = [
        list(30 + 10 * a - 2 * (b == "relu") + a * c + generator.normal(0, 0.5, 3))
        for a, b, c in points
    ]
    settings = dict(zip("abc", map(list, zip(*points, strict=True)), strict=True))
    importance = explain(settings, scores)
    assert importance is not None
    shares = {each.key: each for each in importance.shares}
    ranks = np.mean(scores, axis=1).argsort().argsort() + 1.0
    for key, levels in zip("abc", (3, 2, 2), strict=True):
        means = {value: np.mean(ranks[np.equal(settings[key], value)]) for value in settings[key]}
        between = sum((means[value] - ranks.mean()) ** 2 for value in settings[key])
        expected = between / ((ranks - ranks.mean()) ** 2).sum()
        assert shares[key].share == pytest.approx(expected)
        assert shares[key].by_chance == pytest.approx((levels - 1) / 11)


@pytest.mark.long
def test_what_is_by_chance_is_what_a_setting_without_effect_gets() -> None:
    generator = np.random.default_rng(2)
    search = {"rate": np.arange(20.0).tolist(), "kind": ["x", "y"] * 10}
    found = [explain(search, generator.normal(30, 1, (20, 1)).tolist()) for _ in range(400)]
    for key, expected in (("rate", 2 / 19), ("kind", 1 / 19)):
        alone = [each for one in found if one for each in one.shares if each.key == key]
        assert alone[0].by_chance == pytest.approx(expected)
        assert np.mean([each.share for each in alone]) == pytest.approx(expected, abs=0.015)


def test_a_search_finds_an_optimum_within_the_range() -> None:
    drawn = random.Random(3)
    rates = [10 ** drawn.uniform(-4, -2) for _ in range(40)]
    kinds = [drawn.choice("xyz") for _ in rates]
    scores = [[35 - 5 * (np.log10(rate) + 3) ** 2 + drawn.gauss(0, 0.1)] for rate in rates]
    scores[0] = []  # not begun
    scores[1] = [0.0]  # diverged
    importance = explain({"kind": kinds, "rate": rates}, scores)
    assert importance is not None
    assert importance.groups == 39
    assert [each.key for each in importance.shares] == ["rate", "kind"]
    assert importance.shares[0].share > 0.6
    assert importance.shares[1].share < 0.2


@pytest.mark.parametrize(
    ("settings", "scores"),
    [
        ({"a": [1, 2, 3, 4]}, [[1.0], [2.0], [3.0], [4.0]]),
        ({"a": [1, 2, 3], "b": [1, 2, 1]}, [[1.0], [2.0], [3.0]]),
        ({"a": [1, 1, 2, 2], "b": [1, 2, 1, 2]}, [[1.0], [2.0], [3.0], []]),
        ({"a": [1, 1, 2, 2], "b": [1, 2, 1, 2]}, [[5.0], [5.0], [5.0], [5.0]]),
        ({"a": [1, 1, 2, 2, 2], "b": [1, 1, 1, 1, 2]}, [[5.0], [6.0], [5.0], [6.0], []]),
    ],
)
def test_too_little_explains_nothing(
    settings: dict[str, list[object]], scores: list[list[float]]
) -> None:
    assert explain(settings, scores) is None


def test_values_that_are_no_numbers_and_lists_are_categories() -> None:
    values: dict[str, list[object]] = {
        "a": [None, [1, 2], "x", [1, 2], None, "x"],
        "b": [1, 2, 3, 4, 5, 5],
    }
    importance = explain(values, [[1.0], [2.0], [3.0], [2.0], [1.0], [3.0]])
    assert importance is not None
    first = importance.shares[0]
    assert first.key == "a"
    assert first.share == pytest.approx(1)
    assert first.by_chance == pytest.approx(2 / 5)
