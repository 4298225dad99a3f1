import itertools
import random

import numpy as np
import pytest

from transformer_cli.extensions.experiments.importance import explain


def test_shares_of_a_grid_are_those_of_an_analysis_of_variance() -> None:
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
    assert importance.is_grid
    shares = {each.key: each for each in importance.shares}

    # Independently: residual sums of squares of least-squares fits with and without each setting.
    means = np.mean(scores, axis=1)

    def residual(keys: str) -> float:
        columns = [np.ones(len(points))] + [
            np.array([value == level for value in settings[key]], dtype=float)
            for key in keys
            for level in set(settings[key])
        ]
        design = np.stack(columns, axis=1)
        fitted = design @ np.linalg.lstsq(design, means, rcond=None)[0]
        return float(((means - fitted) ** 2).sum())

    total = residual("")
    for key in "abc":
        own = (residual("abc".replace(key, "")) - residual("abc")) / total
        assert shares[key].share == pytest.approx(own)
    assert shares[None].share == pytest.approx(residual("abc") / total)
    assert sum(each.share for each in importance.shares) == pytest.approx(1)
    noise = np.mean(np.var(scores, axis=1, ddof=1)) / 3 / np.var(means, ddof=1)
    chances = {key: each.by_chance for key, each in shares.items()}
    assert chances == pytest.approx(
        {"a": noise * 2 / 11, "b": noise / 11, "c": noise / 11, None: noise * 7 / 11}
    )


@pytest.mark.long
def test_what_is_by_chance_is_what_a_setting_without_effect_gets() -> None:
    generator = np.random.default_rng(2)
    grid = {"a": [1, 1, 2, 2, 3, 3], "b": [0, 1, 0, 1, 0, 1]}
    effect = 5 * np.array(grid["b"])[:, None]
    found = [explain(grid, (effect + generator.normal(30, 1, (6, 3))).tolist()) for _ in range(400)]
    of_a = [each for one in found if one for each in one.shares if each.key == "a"]
    chance = np.mean([each.by_chance for each in of_a if each.by_chance is not None])
    assert np.mean([each.share for each in of_a]) == pytest.approx(chance, rel=0.15)

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
    assert (importance.is_grid, importance.groups) == (False, 39)
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
