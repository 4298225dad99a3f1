"""How long lines are."""

from collections.abc import Sequence

import numpy as np

PERCENTILES = (50, 90, 99, 100)
"""Those that a person is shown."""


def percentiles(counts: np.ndarray, shares: Sequence[float]) -> list[int]:
    """The smallest values that so many per cent of all are not above.

    Args:
        counts: how many there are of 0, 1, 2, …; at least one in all.
        shares: 0 to 100.
    """
    up_to = np.cumsum(counts)
    below = np.ceil(up_to[-1] * (np.asarray(shares) / 100) - 1).clip(min=0)
    return [int(each) for each in np.searchsorted(up_to, below, side="right")]
