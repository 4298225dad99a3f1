"""All filters, in the order in which they are applied."""

from collections.abc import Collection

from transformer_cli.config.schema import FilterName
from transformer_cli.data.filters.protocol import Filter, PairFilter, RepeatFilter


def build_filters(names: Collection[FilterName], src_lang: str, tgt_lang: str) -> list[Filter]:
    """Return the filters of these names, in the order in which they are applied.

    Args:
        names: of the filters; ``blank`` is always there.
        src_lang: language of the source side, for filters that look at it.
        tgt_lang: language of the target side.

    Raises:
        MissingExtraError: a filter needs a package that is not installed.
    """
    found: list[Filter] = [
        PairFilter("blank", "a side is nothing but whitespace", _is_blank),
        RepeatFilter(
            "duplicates", "the same pair occurs earlier", lambda src, tgt: f"{src}\n{tgt}"
        ),
    ]
    return [each for each in found if each.name == "blank" or each.name in names]


def _is_blank(src: str, tgt: str) -> bool:
    return not src.strip() or not tgt.strip()
