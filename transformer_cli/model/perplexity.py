"""Perplexity."""

import math


def perplexity(loss: float) -> float:
    """The exponential of a mean negative log-likelihood; infinite where floats end."""
    return math.inf if loss >= 700.0 else math.exp(loss)
