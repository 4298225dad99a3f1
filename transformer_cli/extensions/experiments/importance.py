"""What part of the differences between groups of runs each setting explains."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

MIN_GROUPS = 4  # fewer say nothing about two settings
# A number with fewer values is treated as a category: a parabola would fit it as well.
_PARABOLA_LEVELS = 4


class Share(NamedTuple):
    """A setting's share of the variance."""

    key: str
    share: float  # from 0 to 1
    by_chance: float  # that of a setting without effect


class Importance(NamedTuple):
    """Shares of the variance, the largest first."""

    groups: int
    shares: list[Share]


def explain(
    settings: Mapping[str, Sequence[object]], scores: Sequence[Sequence[float]]
) -> Importance | None:
    """Return what part of the differences between groups each setting explains, alone.

    It is the R squared of the ranks of the group means: by the means of the setting's values or,
    for four or more different numbers, by a parabola of their rank, which fits an optimum within
    the range as well as at its end. Ranks are used because a few diverged or pruned points would
    have nearly all of the variance.

    Settings have a value for each group, and groups a score for each run; groups without a score
    are left out. None: there are fewer than two settings or ``MIN_GROUPS`` groups, or all groups
    are equally good.
    """
    scored = [index for index, of_group in enumerate(scores) if of_group]
    means = np.array([np.mean(scores[index]) for index in scored])
    if len(scored) < MIN_GROUPS or np.ptp(means) < 1e-9:
        return None
    of_scored = {key: [values[index] for index in scored] for key, values in settings.items()}
    varied = {key: values for key, values in of_scored.items() if len(set(map(repr, values))) > 1}
    if len(varied) < 2:
        return None
    shares = [_explain_ranks(key, values, _rank(means)) for key, values in varied.items()]
    return Importance(len(scored), sorted(shares, key=lambda share: -share.share))


def are_numbers(values: Sequence[object]) -> bool:
    """Whether all values are numbers."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _explain_ranks(
    key: str, values: Sequence[object], ranks: Float[np.ndarray, " groups"]
) -> Share:
    levels = np.unique([repr(value) for value in values], return_inverse=True)[1]
    freedom = int(levels.max())
    if are_numbers(values) and freedom + 1 >= _PARABOLA_LEVELS:
        x, freedom = _rank(np.array(values, dtype=float)), 2
        fitted = np.polynomial.Polynomial.fit(x, ranks, 2)(x)
    else:
        fitted = (np.bincount(levels, weights=ranks) / np.bincount(levels))[levels]
    return Share(key, float(np.var(fitted) / np.var(ranks)), freedom / (len(ranks) - 1))


def _rank(values: Float[np.ndarray, " groups"]) -> Float[np.ndarray, " groups"]:
    """Return each value's rank; equal values share their mean rank."""
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[where]
