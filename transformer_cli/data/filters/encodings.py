"""Broken encoding."""

import re
from collections.abc import Callable

from transformer_cli.data.filters.protocol import PairFilter
from transformer_cli.packages import import_extra

# Control characters but the tab, U+FFFD, and halves of surrogate pairs.
_DAMAGED = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\ufffd\ud800-\udfff]")


def encoding_filter() -> PairFilter:
    """Return the filter of pairs with a side that was decoded wrongly."""
    fix_encoding = import_extra("ftfy", "clean", "filter 'encoding'").fix_encoding
    return PairFilter(
        "encoding",
        "a side has control characters, U+FFFD, or UTF-8 read as another encoding",
        lambda src, tgt: _is_broken(src, fix_encoding) or _is_broken(tgt, fix_encoding),
    )


def _is_broken(line: str, fix_encoding: Callable[[str], str]) -> bool:
    if _DAMAGED.search(line):
        return True
    return not line.isascii() and fix_encoding(line) != line
