"""All filters, in the order in which they are applied."""

from collections.abc import Callable, Collection
from typing import get_args

from transformer_cli.config.data_schema import FilterName
from transformer_cli.data.filters.contents import markup_filter, numbers_filter
from transformer_cli.data.filters.encodings import encoding_filter
from transformer_cli.data.filters.languages import language_filter, short_language_filter
from transformer_cli.data.filters.lengths import length_filter, length_ratio_filter
from transformer_cli.data.filters.protocol import Filter, PairFilter
from transformer_cli.data.filters.sameness import (
    duplicates_filter,
    folded_duplicates_filter,
    identical_filter,
)
from transformer_cli.data.filters.scripts import script_filter

FILTER_NAMES: tuple[FilterName, ...] = get_args(FilterName)


def build_filters(names: Collection[FilterName], src_lang: str, tgt_lang: str) -> list[Filter]:
    """Return the filters of these names, in the order in which they are applied.

    Args:
        names: of the filters; ``blank`` is always there.
        src_lang: language of the source side, for filters that look at it.
        tgt_lang: language of the target side.

    Raises:
        MissingExtraError: a filter needs a package that is not installed.
    """
    build: dict[FilterName, Callable[[], Filter]] = {
        "blank": _blank_filter,
        "encoding": encoding_filter,
        "identical": identical_filter,
        "script": lambda: script_filter(src_lang, tgt_lang),
        "markup": markup_filter,
        "numbers": numbers_filter,
        "language": lambda: language_filter(src_lang, tgt_lang),
        "language_short": lambda: short_language_filter(src_lang, tgt_lang),
        "length": length_filter,
        "length_ratio": length_ratio_filter,
        "duplicates": duplicates_filter,
        "duplicates_folded": folded_duplicates_filter,
    }
    return [build[name]() for name in FILTER_NAMES if name == "blank" or name in names]


def _blank_filter() -> PairFilter:
    return PairFilter(
        "blank",
        "a side is nothing but whitespace",
        lambda src, tgt: not src.strip() or not tgt.strip(),
    )
