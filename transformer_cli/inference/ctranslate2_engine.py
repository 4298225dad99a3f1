"""Searching by CTranslate2, which is faster on a CPU than torch."""

SINUSOIDS = 2_100
"""Positions of an exported model that has learned none: the longest source of a line, 1,024 tokens,
and its longest output, twice that plus ten, have room."""
