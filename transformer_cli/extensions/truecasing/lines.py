"""Find lines that are written in unusual casing."""

from typing import Literal

from transformer_cli.extensions.verbatim.verbatim_parts import without_verbatim

Casing = Literal["upper", "lower", "title"]
"""In capitals, without capitals, or with a capital in each word."""
MIN_UPPER = 0.8
"""The smallest share of capitals among the letters of a line in capitals."""
_FEWEST_WORDS = {"upper": 2, "lower": 2, "title": 4}
"""Fewer words say nothing; a title may have a capital in each of its words."""


def casing_of(line: str) -> Casing | None:
    """Return how the words of a line are written, or None if they are written in ordinary casing.

    Verbatim parts, such as URLs, don't count.
    """
    # The first words of most lines begin with both kinds of letter, and the rest is small.
    starts = [word[0] for word in line.split(None, 4)[:4]]
    if any(map(str.islower, starts)) and any(map(str.isupper, starts)) and _is_small(line):
        return None
    words = [list(filter(str.isalpha, word)) for word in without_verbatim(line).split()]
    words = [word for word in words if word]
    letters = [letter for word in words for letter in word]
    capitals, small = sum(map(str.isupper, letters)), sum(map(str.islower, letters))
    if not capitals + small:
        return None
    written: Casing = "title"
    if not capitals:
        written = "lower"
    elif capitals >= MIN_UPPER * (capitals + small):
        written = "upper"
    elif any(word[0].islower() for word in words):
        return None
    return written if len(words) >= _FEWEST_WORDS[written] else None


def _is_small(line: str) -> bool:
    return sum(map(str.islower, line)) > len(line) / 2


def rewritten(line: str, text: str) -> str:
    """Return ``text`` with the attributes that ``line`` may have, e.g. a tag."""
    made = str.__new__(type(line), text)
    for name, value in getattr(line, "__dict__", {}).items():
        setattr(made, name, value)
    return made
