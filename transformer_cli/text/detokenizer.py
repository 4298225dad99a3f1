"""Detokenization of words: the spaces that a person would write, for every language."""

import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

from transformer_cli.text.vocabulary import SPECIALS, UNK_ID

_APOSTROPHES = "'’‘"
# Written without spaces between two words, if the rules split there: "T-shirt", "Freund/in". Not
# dashes, which mostly have spaces.
_INNER_MARKS = frozenset("-/’‘")
# Closing quotation marks, by the opening one.
_CLOSING_QUOTES = {
    '"': '"',
    "'": "'",
    "„": "“”",
    "“": "”“",
    "”": "”“",
    "‚": "‘’",
    "‘": "’",
    "«": "»",
    "»": "«",
    "‹": "›",
    "›": "‹",
}
_CLOSING_PUNCTUATION = frozenset(",.?!:;%)]}…")
_OPENING_PUNCTUATION = frozenset("([{¿¡")
# Stands for a space that sacremoses must not see; a noncharacter of Unicode.
_INNER_SPACE = "\ufdd0"
# Languages whose rules in sacremoses are used. Its English rule takes 'free' in single quotes for a
# contraction; apostrophes are handled here. Its Czech rule raises TypeError.
_MOSES_LANGUAGES = frozenset({"fr", "it", "ga", "fi", "ko"})


class Detokenizer:
    """Joins words to text: the reverse of splitting it, as far as words tell.

    Args:
        split: splits text into words by a language's rules.
        language: language of the text, as in 'de'.
    """

    def __init__(self, split: Callable[[str], list[str]], language: str) -> None:
        self._split = split
        self._language = language.partition("-")[0]
        self._moses: Any = None

    def join(self, words: Sequence[str]) -> str:
        """Return the text of words, on one line."""
        if not words:
            return ""
        closed = self._find_inner_gaps(words) | _find_quote_gaps(words, self._language)
        closed |= {gap + 1 for gap, word in enumerate(words) if word == "#"}
        pieces = [words[0]]
        for gap, word in enumerate(words[1:], start=1):
            if gap in closed:
                pieces[-1] += word
            elif _is_unit_of_money(words, gap):
                pieces[-1] += _INNER_SPACE + word
            else:
                pieces.append(word)
        # No unescaping: a text's own '&lt;' stays as it is.
        text = str(self._detokenizer().detokenize(pieces, unescape=False))
        return text.replace(_INNER_SPACE, " ")

    def _find_inner_gaps(self, words: Sequence[str]) -> set[int]:
        """Return the gaps (gap n is before word n) where the rules split one written word.

        Joined, such parts are split in the same places again. "can not" and " - " look alike, but
        are rarer than "cannot" and "T-shirt".
        """
        # An unknown word takes hyphens and endings like any other.
        words = ["x" if word == SPECIALS[UNK_ID] else word for word in words]
        gaps = set()
        for gap in range(1, len(words)):
            before, word = words[gap - 1], words[gap]
            if word in _INNER_MARKS:
                after = words[gap + 1] if gap + 1 < len(words) else " "
                if (
                    before[-1].isalnum()
                    and after[0].isalnum()
                    and self._splits(before, word, after)
                ):
                    gaps |= {gap, gap + 1}
            elif _may_be_one_word(before, word) and self._splits(before, word):
                gaps.add(gap)
        return gaps

    def _splits(self, *parts: str) -> bool:
        return self._split("".join(parts)) == list(parts)

    def _detokenizer(self) -> Any:
        if self._moses is None:
            from sacremoses import MosesDetokenizer

            self._moses = MosesDetokenizer(
                self._language if self._language in _MOSES_LANGUAGES else "xx"
            )
        return self._moses


def _may_be_one_word(before: str, word: str) -> bool:
    """Return whether two parts look like "do" + "n't", "man" + "'s", "l'" + "homme"."""
    if word[0].isalpha():
        return before[-1].isalpha() or (before[-1] in _APOSTROPHES and len(before) > 1)
    return word[0] in _APOSTROPHES and word[1:].isalpha() and before[-1].isalnum()


def _is_unit_of_money(words: Sequence[str], place: int) -> bool:
    """Return whether a sign follows its amount, "3,50 €"; sacremoses expects "$20"."""
    sign = words[place]
    if len(sign) != 1 or unicodedata.category(sign) != "Sc" or not words[place - 1][-1].isdigit():
        return False
    return place + 1 == len(words) or not words[place + 1][0].isdigit()


def _find_quote_gaps(words: Sequence[str], language: str) -> set[int]:
    """Return the gaps next to quotation marks, on the inside, and to apostrophes."""
    opened: list[int] = []
    paired: set[int] = set()
    gaps: set[int] = set()
    for place, word in enumerate(words):
        if language == "fr" and word in "«»":
            continue  # French writes spaces within these
        partner = next((p for p in reversed(opened) if word in _CLOSING_QUOTES[words[p]]), None)
        if partner is None:
            if word in _CLOSING_QUOTES:
                opened.append(place)
        else:
            gaps |= _gaps_after_opening(words, partner) | _gaps_before_closing(words, place)
            paired |= {partner, place}
            del opened[opened.index(partner) :]
    for place in range(1, len(words)):
        # "the boys' room", "Maus' Nase": no quotation mark
        is_genitive = words[place] in ("'", "’") and words[place - 1][-1] in "sxz"
        if is_genitive and place not in paired:
            gaps.add(place)
    return gaps


def _gaps_after_opening(words: Sequence[str], place: int) -> set[int]:
    """Return the gap after an opening mark, and those after further ones that follow it."""
    gaps = {place + 1}
    while words[place + 1] in _OPENING_PUNCTUATION and place + 2 < len(words):
        place += 1
        gaps.add(place + 1)
    return gaps


def _gaps_before_closing(words: Sequence[str], place: int) -> set[int]:
    """Return the gap before a closing mark, and those before further ones that precede it."""
    gaps = {place}
    while place > 1 and words[place - 1] in _CLOSING_PUNCTUATION:
        place -= 1
        gaps.add(place)
    return gaps
