"""Sides that are equal, and pairs that are like earlier ones."""

import unicodedata

from transformer_cli.data.filters.protocol import PairFilter, RepeatFilter
from transformer_cli.data.filters.short_text import is_short


def identical_filter() -> PairFilter:
    """Return the filter of pairs whose target is their source.

    Short ones may be right: names, titles and 'OK' are the same in many languages.
    """
    return PairFilter(
        "identical",
        "the target is the source, and is not short",
        lambda src, tgt: src.strip() == tgt.strip() and not is_short(src),
    )


def duplicates_filter() -> RepeatFilter:
    """Return the filter of exact repetitions."""
    return RepeatFilter(
        "duplicates", "the same pair occurs earlier", lambda src, tgt: f"{src}\n{tgt}"
    )


def folded_duplicates_filter() -> RepeatFilter:
    """Return the filter of repetitions with other case, digits, punctuation or white space."""
    return RepeatFilter(
        "duplicates_folded",
        "the same pair but for case, digits, punctuation and white space occurs earlier",
        lambda src, tgt: f"{_fold(src)}\n{_fold(tgt)}",
    )


class _Folding(dict[int, str | None]):
    """A table for ``str.translate`` that drops digits, punctuation and white space."""

    def __missing__(self, code: int) -> str | None:
        # Marks stay: the vowels of Hindi are some.
        self[code] = None if unicodedata.category(chr(code))[0] in "NPZC" else chr(code)
        return self[code]


_FOLDING = _Folding()


def _fold(line: str) -> str:
    # A line of numbers alone would be like any other.
    return line.casefold().translate(_FOLDING) or line
