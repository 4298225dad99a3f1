"""Find words in lines, and lines that are written in unusual casing."""

import re
from collections.abc import Iterator
from typing import Literal

from transformer_cli.extensions.verbatim.verbatim_parts import find_verbatim, without_verbatim

Casing = Literal["upper", "lower", "title"]
"""In capitals, without capitals, or with a capital in each word."""
MIN_UPPER = 0.8
"""The smallest share of capitals among the letters of a line in capitals."""
_FEWEST_WORDS = {"upper": 2, "lower": 2, "title": 4}
"""Fewer words say nothing; a title may have a capital in each of its words."""
_WORD = re.compile(r"(?:[^\W\d_][\u0300-\u036f]*)+")
SENTENCE_END = re.compile(r"[.!?:…。！？]")
_DIGIT = re.compile(r"\d")
_DOTTED = ("tr", "az")  # languages in which I is the capital of ı, and İ that of i


def casing_of(line: str) -> Casing | None:
    """Return how the words of a line are written, or None if they are written in ordinary casing.

    Verbatim parts, such as URLs, don't count.
    """
    # The first words of most lines begin with both kinds of letter, and the rest is small.
    starts = [word[0] for word in line.split(None, 4)[:4]]
    has_both = any(map(str.islower, starts)) and any(map(str.isupper, starts))
    if has_both and sum(map(str.islower, line)) > len(line) / 2:
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


def words_of(line: str) -> Iterator[tuple[str, bool, int]]:
    """Yield the words outside verbatim parts: word, whether it starts a sentence, place."""
    parts = find_verbatim(line)[::-1]
    end, starts = 0, True
    for match in _WORD.finditer(line):
        while parts and parts[-1].end <= match.start():
            parts.pop()
        between = line[end : match.start()]
        starts = (starts or bool(SENTENCE_END.search(between))) and not _DIGIT.search(between)
        end = match.end()
        if not (parts and parts[-1].start < end):
            yield match[0], starts, match.start()
        starts = False


def to_upper(text: str, language: str) -> str:
    """Return a text in capitals, by Unicode's rules: ß becomes SS, and in Turkish, i becomes İ."""
    return (text.replace("i", "İ") if language in _DOTTED else text).upper()


def to_lower(text: str, language: str) -> str:
    """Return a text without capitals; in Turkish, I becomes ı."""
    if language in _DOTTED:
        text = text.replace("I", "ı").replace("İ", "i")
    return text.lower()


def spelling_key(word: str, language: str) -> str:
    """Return what all spellings of a word have in common."""
    return to_upper(word, language).replace("ẞ", "SS")
