"""Percentiles of line lengths."""

from collections.abc import Sequence

import numpy as np

PERCENTILES = (50, 90, 99, 100)
"""The percentiles that are printed."""


def percentiles(counts: np.ndarray, shares: Sequence[float]) -> list[int]:
    """Return percentiles of values of which ``counts[n]`` are n.

    Args:
        counts: a histogram of at least one value.
        shares: 0 to 100.
    """
    values = np.arange(len(counts))
    found = np.percentile(values, shares, weights=counts, method="inverted_cdf")
    return [int(each) for each in found]
