"""Splitting of raw text into words, in any language, to compare and to count."""

import re
import unicodedata
from functools import cache

# Scripts that set no spaces: each character counts as a word.
_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"


def split_words(text: str) -> list[str]:
    """Return the words of ``text`` in lower case, without punctuation."""
    return _word_pattern().findall(text.lower())


def split_pieces(text: str) -> list[str]:
    """Split ``text`` into words, white space and single characters, which make it up again."""
    return _piece_pattern().findall(text)


@cache
def _word() -> str:
    # Python's \w lacks the marks that write vowels in Indian scripts, say.
    codes = range(0x300, 0xFFFF)
    marks = "".join(chr(code) for code in codes if unicodedata.category(chr(code))[0] == "M")
    return rf"[{_IDEOGRAPHS}]|(?:(?![{_IDEOGRAPHS}])[\w{marks}])+"


@cache
def _word_pattern() -> re.Pattern[str]:
    return re.compile(_word())


@cache
def _piece_pattern() -> re.Pattern[str]:
    return re.compile(rf"{_word()}|\s+|.", re.DOTALL)
