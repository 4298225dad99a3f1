"""How much of the differences between groups each setting explains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

LEAST_GROUPS = 4
"""Fewer say nothing about two settings."""
_PARABOLA_LEVELS = 4
"""A number with fewer values is treated as a category: a parabola would fit it as well."""


class Share(NamedTuple):
    """A setting's share of the variance."""

    key: str | None
    """None: what the settings do only together, or nothing explains."""
    share: float
    """From 0 to 1."""
    by_chance: float | None
    """The share to expect of a setting without effect; None: not known from single runs."""


@dataclass(frozen=True)
class Importance:
    """Shares of the variance, the largest first, the rest last."""

    is_grid: bool
    """Whether main effects of a full grid, else of ranks, one setting at a time."""
    groups: int
    shares: list[Share]


def explain(
    settings: Mapping[str, Sequence[object]], scores: Sequence[Sequence[float]]
) -> Importance | None:
    """Return what part of the differences between groups each setting explains.

    In a full grid, where each combination of values is one group, these are the main effects of an
    analysis of variance of the group means (eta squared), which add up to 1 with the interactions.
    What a setting without effect gets is its degrees of freedom's part of the variance that the
    runs of a group have among each other.

    Else it is, for each setting alone, the R squared of the ranks of the group means: on the means
    of its values or, for numbers of four values or more, on a parabola of the setting's rank, which
    an optimum within the range fits as well as one at its end. Ranks, because a few diverged or
    pruned points would have nearly all of the variance.

    Args:
        settings: by key, one value a group.
        scores: each group's, one a run; groups without any are left out.

    Returns:
        None with fewer than two settings or ``LEAST_GROUPS`` groups, or if all are equally good.
    """
    scored = [index for index, of_groups in enumerate(scores) if of_groups]
    values = {key: [of_groups[index] for index in scored] for key, of_groups in settings.items()}
    values = {
        key: of_groups for key, of_groups in values.items() if len(set(map(repr, of_groups))) > 1
    }
    means = np.array([np.mean(scores[index]) for index in scored])
    if len(values) < 2 or len(scored) < LEAST_GROUPS or np.ptp(means) < 1e-9:
        return None
    if len(scored) == len(scores) and _is_grid(values):
        return _explain_grid(values, [scores[index] for index in scored], means)
    shares = [_explain_ranks(key, of_groups, means) for key, of_groups in values.items()]
    return Importance(False, len(scored), _largest_first(shares))


def are_numbers(values: Sequence[object]) -> bool:
    """Whether all values are numbers."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _is_grid(values: Mapping[str, Sequence[object]]) -> bool:
    points = [repr(point) for point in zip(*values.values(), strict=True)]
    levels = prod(len(set(map(repr, of_groups))) for of_groups in values.values())
    return len(points) == len(set(points)) == levels


def _explain_grid(
    values: Mapping[str, Sequence[object]],
    scores: Sequence[Sequence[float]],
    means: Float[np.ndarray, " groups"],
) -> Importance:
    freedom = len(means) - 1
    repeated = [
        np.var(of_groups, ddof=1) / len(of_groups) for of_groups in scores if len(of_groups) > 1
    ]
    noise = min(1.0, float(np.mean(repeated) / np.var(means, ddof=1))) if repeated else None

    def share(key: str | None, explained: float, own_freedom: int) -> Share:
        by_chance = None if noise is None else noise * own_freedom / freedom
        return Share(key, explained, by_chance)

    shares, left, left_freedom = [], 1.0, freedom
    for key, of_groups in values.items():
        levels = _levels(of_groups)
        explained, own_freedom = _explained_by_levels(levels, means), int(levels.max())
        shares.append(share(key, explained, own_freedom))
        left, left_freedom = left - explained, left_freedom - own_freedom
    rest = share(None, max(0.0, left), left_freedom)
    return Importance(True, len(means), [*_largest_first(shares), rest])


def _explain_ranks(
    key: str, values: Sequence[object], means: Float[np.ndarray, " groups"]
) -> Share:
    levels, ranks = _levels(values), _ranks(means)
    if are_numbers(values) and levels.max() + 1 >= _PARABOLA_LEVELS:
        x = _ranks(np.array(values, dtype=float))
        fitted = np.polynomial.Polynomial.fit(x, ranks, 2)(x)
        return Share(key, float(np.var(fitted) / np.var(ranks)), 2 / (len(means) - 1))
    explained = _explained_by_levels(levels, ranks)
    return Share(key, explained, int(levels.max()) / (len(means) - 1))


def _explained_by_levels(
    levels: Int[np.ndarray, " groups"], of: Float[np.ndarray, " groups"]
) -> float:
    """Return the share of the variance that is between levels (eta squared)."""
    counts = np.bincount(levels)
    level_means = np.bincount(levels, weights=of) / counts
    return float(np.var(level_means[levels]) / np.var(of))


def _levels(values: Sequence[object]) -> Int[np.ndarray, " groups"]:
    """Number the different values."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(map(repr, values)))}
    return np.array([numbers[repr(value)] for value in values])


def _ranks(values: Float[np.ndarray, " groups"]) -> Float[np.ndarray, " groups"]:
    """Return each value's rank; equal values share their mean rank."""
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[where]


def _largest_first(shares: list[Share]) -> list[Share]:
    return sorted(shares, key=lambda each: -each.share)
