"""The characters that words consist of, in all scripts."""

import unicodedata
from itertools import chain

SPACELESS = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Thai, Tibetan, Burmese, Khmer, kana and ideographs, as ranges for a regular expression. They have
no spaces between words, so reports count each character, with its marks, as a word."""
# The parts of Unicode that have marks of languages in use today.
_MARKED = range(0x300, 0x1D00), range(0x302A, 0x309B), range(0xA66F, 0xAC00), range(0xFE20, 0xFE30)
MARKS = "\u200c\u200d" + "".join(
    character
    for character in map(chr, chain(*_MARKED))
    if unicodedata.category(character)[0] == "M"
)
"""Accents, vowel signs and word joiners, which Python's ``\\w`` and ``isalnum`` leave out."""


def is_of_word(character: str) -> bool:
    """Return whether a character is a letter, digit or mark; return False for an empty string."""
    return character.isalnum() or (character != "" and character in MARKS)
