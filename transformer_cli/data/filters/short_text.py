"""Lines without their placeholders, and what is too short to be judged: names, titles, 'OK'."""

from typing import get_args

from transformer_cli.config.tokenizer_schema import Protected
from transformer_cli.text.reserved import find_placeholders

LEAST_LETTERS = 20
"""'GNU General Public' has 16; what has more says something, in some language."""
_GROUPS: tuple[Protected, ...] = get_args(Protected)
_BEGINNINGS = "%<{&"


def placeholders(line: str) -> list[str]:
    """Return the placeholders, tags and URLs of a line, in their order."""
    may_have = any(each in line for each in _BEGINNINGS) or "://" in line or "www." in line
    return [each.text for each in find_placeholders(line, _GROUPS)] if may_have else []


def without_placeholders(line: str) -> str:
    """Return a line with a space for each placeholder, tag and URL."""
    for each in placeholders(line):
        line = line.replace(each, " ", 1)
    return line


def is_short(line: str) -> bool:
    """Return whether a line has few letters beside its placeholders, and so may be anything."""
    return sum(map(str.isalpha, without_placeholders(line))) < LEAST_LETTERS
