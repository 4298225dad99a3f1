"""What part of the differences between groups of runs each setting explains."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

MIN_GROUPS = 4  # fewer say nothing about two settings
# A number with fewer values is treated as a category: a parabola would fit it as well.
_PARABOLA_LEVELS = 4


class Share(NamedTuple):
    """A setting's share of the variance."""

    key: str | None  # None: what the settings do only together, or nothing explains
    share: float  # from 0 to 1
    by_chance: float | None  # that of a setting without effect; None: unknown from single runs


class Importance(NamedTuple):
    """Shares of the variance, the largest first, the rest last."""

    is_grid: bool  # whether main effects of a full grid, else of ranks, one setting at a time
    groups: int
    shares: list[Share]


def explain(
    settings: Mapping[str, Sequence[object]], scores: Sequence[Sequence[float]]
) -> Importance | None:
    """Return what part of the differences between groups each setting explains.

    In a full grid, where each combination of values is one group, these are the main effects of an
    analysis of variance of the group means (eta squared), which add up to 1 with the interactions.
    A setting without effect gets, by chance, the variance among the runs of a group, in proportion
    to its degrees of freedom.

    Otherwise it is, for each setting alone, the R squared of the ranks of the group means: by the
    means of its values or, for four or more different numbers, by a parabola of the setting's rank,
    which fits an optimum within the range as well as at its end. Ranks are used because a few
    diverged or pruned points would have nearly all of the variance.

    Settings have a value for each group, and groups a score for each run; groups without a score
    are left out. None: there are fewer than two settings or ``MIN_GROUPS`` groups, or all groups
    are equally good.
    """
    scored = [index for index, of_group in enumerate(scores) if of_group]
    levels = {}  # numbers of the different values, by setting with more than one
    for key, values in settings.items():
        own = np.unique([repr(values[index]) for index in scored], return_inverse=True)[1]
        if own.any():
            levels[key] = own
    means = np.array([np.mean(scores[index]) for index in scored])
    if len(levels) < 2 or len(scored) < MIN_GROUPS or np.ptp(means) < 1e-9:
        return None
    points = set(zip(*levels.values(), strict=True))
    num_points = prod(int(own.max()) + 1 for own in levels.values())
    if len(scores) == len(scored) == len(points) == num_points:
        return Importance(True, len(scored), _explain_grid(levels, scores, means))
    shares = [
        _explain_ranks(key, [settings[key][index] for index in scored], own, _ranks(means))
        for key, own in levels.items()
    ]
    return Importance(False, len(scored), sorted(shares, key=lambda share: -share.share))


def are_numbers(values: Sequence[object]) -> bool:
    """Whether all values are numbers."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _explain_grid(
    levels: Mapping[str, Int[np.ndarray, " groups"]],
    scores: Sequence[Sequence[float]],
    means: Float[np.ndarray, " groups"],
) -> list[Share]:
    freedom = len(means) - 1
    repeated = [np.var(runs, ddof=1) / len(runs) for runs in scores if len(runs) > 1]
    noise = min(1.0, float(np.mean(repeated) / np.var(means, ddof=1))) if repeated else None

    def share(key: str | None, explained: float, own_freedom: int) -> Share:
        by_chance = None if noise is None else noise * own_freedom / freedom
        return Share(key, explained, by_chance)

    shares, left, left_freedom = [], 1.0, freedom
    for key, own in levels.items():
        explained, own_freedom = _explained_by_levels(own, means), int(own.max())
        shares.append(share(key, explained, own_freedom))
        left, left_freedom = left - explained, left_freedom - own_freedom
    shares.sort(key=lambda share: -share.share)
    return [*shares, share(None, max(0.0, left), left_freedom)]


def _explain_ranks(
    key: str,
    values: Sequence[object],
    levels: Int[np.ndarray, " groups"],
    ranks: Float[np.ndarray, " groups"],
) -> Share:
    explained, own_freedom = _explained_by_levels(levels, ranks), int(levels.max())
    if are_numbers(values) and own_freedom + 1 >= _PARABOLA_LEVELS:
        x = _ranks(np.array(values, dtype=float))
        fitted = np.polynomial.Polynomial.fit(x, ranks, 2)(x)
        explained, own_freedom = float(np.var(fitted) / np.var(ranks)), 2
    return Share(key, explained, own_freedom / (len(ranks) - 1))


def _explained_by_levels(
    levels: Int[np.ndarray, " groups"], of: Float[np.ndarray, " groups"]
) -> float:
    """Return the share of the variance that is between levels (eta squared)."""
    level_means = np.bincount(levels, weights=of) / np.bincount(levels)
    return float(np.var(level_means[levels]) / np.var(of))


def _ranks(values: Float[np.ndarray, " groups"]) -> Float[np.ndarray, " groups"]:
    """Return each value's rank; equal values share their mean rank."""
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[where]
