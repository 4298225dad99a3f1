"""Perplexity."""

import math


def perplexity(loss: float) -> float:
    """Return the exponential of a mean negative log-likelihood; infinite on overflow."""
    return math.inf if loss >= 700.0 else math.exp(loss)
