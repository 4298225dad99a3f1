"""Lengths that are far from the corpus's own."""

import math

import numpy as np

from transformer_cli.data.filters.protocol import OutlierFilter

# So that short lines, whose ratios vary most, are not odd: 'Ja.' beside 'Yes, indeed.'.
_SMOOTHING = 10
_PERCENTILES = (5, 50, 95)
_LEAST_DISTANCE = 0.1
"""Of the 5th and 95th percentile from the median, in logarithms: of a corpus of equal lengths."""


def length_filter() -> OutlierFilter:
    """Return the filter of pairs with a side that is far longer or shorter than the others."""
    return OutlierFilter(
        "length",
        "the longer side's length is far from the others",
        lambda src, tgt: math.log(max(len(src), len(tgt)) + _SMOOTHING),
        lambda measures: _are_far(measures, 3.0),
    )


def length_ratio_filter() -> OutlierFilter:
    """Return the filter of pairs with a length ratio that is far from the others."""
    return OutlierFilter(
        "length_ratio",
        "the ratio of the sides' lengths is far from the others",
        lambda src, tgt: math.log((len(src) + _SMOOTHING) / (len(tgt) + _SMOOTHING)),
        lambda measures: _are_far(measures, 2.5),
    )


def _are_far(measures: np.ndarray, times: float) -> np.ndarray:
    """Return which measures are farther from the median than the 5th or 95th percentile, by far.

    Args:
        measures: logarithms.
        times: how many times as far; a percentile itself would always take its share.
    """
    if not len(measures):
        return np.zeros(0, dtype=bool)
    low, median, high = np.percentile(measures, _PERCENTILES)
    below = median - times * max(median - low, _LEAST_DISTANCE)
    above = median + times * max(high - median, _LEAST_DISTANCE)
    far: np.ndarray = (measures < below) | (measures > above)
    return far
