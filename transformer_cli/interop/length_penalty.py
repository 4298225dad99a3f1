"""Length penalties of two formulas.

We divide a log-probability by ((5 + length) / 6) ** alpha (Wu et al. 2016, equation 14), and
transformers by length ** penalty. No number makes both alike for all lengths. These functions make
the slopes equal at ``_TYPICAL_LENGTH``, so that hypotheses of about that length are ranked alike.
"""

_TYPICAL_LENGTH = 15
"""Tokens of an output, EOS included."""
_SLOPE = _TYPICAL_LENGTH / (5 + _TYPICAL_LENGTH)


def to_transformers_penalty(alpha: float) -> float:
    """Return transformers' ``length_penalty`` for ``decoding.length_penalty``."""
    return round(alpha * _SLOPE, 3)


def from_transformers_penalty(penalty: float) -> float:
    """Return ``decoding.length_penalty`` for transformers' ``length_penalty``."""
    return round(penalty / _SLOPE, 3)
