"""The names of filters, which settings have; their rules are in rules.py. Light to import."""

from typing import Literal, get_args

FilterName = Literal[
    "blank",
    "encoding",
    "identical",
    "script",
    "markup",
    "numbers",
    "language",
    "language_short",
    "length",
    "length_ratio",
    "duplicates",
    "duplicates_folded",
]
"""In the order in which they are applied."""

FILTER_NAMES: tuple[FilterName, ...] = get_args(FilterName)
