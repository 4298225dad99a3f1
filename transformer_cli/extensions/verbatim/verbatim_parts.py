"""Find a line's verbatim parts, such as '%s', '{name}', '<b>' or a URL, which stay unchanged."""

import re
from collections.abc import Callable, Collection
from typing import Literal, NamedTuple, get_args

from transformer_cli.extensions.verbatim.manifest import SIGNS
from transformer_cli.text.lines import has_letters

Group = Literal["printf", "braces", "tags", "urls"]
GROUPS: tuple[Group, ...] = get_args(Group)
_SIGN = re.compile(SIGNS)


class VerbatimPart(NamedTuple):
    """The text of a verbatim part, and where it starts and ends in its line."""

    text: str
    start: int
    end: int


def find_verbatim(line: str, groups: Collection[Group] = GROUPS) -> list[VerbatimPart]:
    """Return the verbatim parts of these groups in a line, from left to right."""
    if not (groups and _SIGN.search(line)):
        return []
    from transformer_cli.extensions.verbatim import part_patterns  # most text has no such part

    return [VerbatimPart(match[0], *match.span()) for match in part_patterns.find(line, groups)]


def without_verbatim(line: str) -> str:
    """Return a line with each verbatim part replaced by a space."""
    rest, end = [], 0
    for _, start, after in find_verbatim(line):
        rest.append(line[end:start])
        end = after
    return " ".join((*rest, line[end:]))


def map_words(line: str, change: Callable[[str], str]) -> str:
    """Return a line with ``change`` applied to the text between its verbatim parts."""
    pieces, end = [], 0
    for text, start, after in find_verbatim(line):
        pieces += [change(line[end:start]), text]
        end = after
    return "".join((*pieces, change(line[end:])))


def has_words(line: str) -> bool:
    """Return whether a line has letters outside its verbatim parts.

    Numbers, dates, punctuation, URLs and tags have nothing to translate.
    """
    return has_letters(without_verbatim(line))
