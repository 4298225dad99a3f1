"""Putting words together to text again, as a person would write it."""

import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

from transformer_cli.text.vocabulary import SPECIALS, UNK_ID

_APOSTROPHES = "'’‘"
# Between two words these are written without spaces if the rules would cut there: "T-shirt",
# "Freund/in". Dashes are not among them: they mostly stand free.
_INNER_MARKS = frozenset("-/’‘")
# What may close a quotation, by what opened it.
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
# A space that sacremoses does not see; a code point that Unicode keeps free for such use.
_INNER_SPACE = "\ufdd0"
# The languages for which sacremoses has rules worth having. Its English rule takes 'free' in single
# quotes for a contraction; apostrophes are seen to here. Its Czech rule raises TypeError.
_MOSES_LANGUAGES = frozenset({"fr", "it", "ga", "fi", "ko"})


class Joiner:
    """Writes words as text: the reverse of cutting it, as far as words tell.

    Args:
        cut: how a language's rules cut text into words.
        language: language of the text, as in 'de'.
    """

    def __init__(self, cut: Callable[[str], list[str]], language: str) -> None:
        self._cut = cut
        self._language = language.partition("-")[0]
        self._moses: Any = None

    def join(self, words: Sequence[str]) -> str:
        """The text of words, on one line."""
        if not words:
            return ""
        closed = self._cut_by_rules(words) | _beside_quotes(words, self._language)
        closed |= {gap + 1 for gap, word in enumerate(words) if word == "#"}
        pieces = [words[0]]
        for gap, word in enumerate(words[1:], start=1):
            if gap in closed:
                pieces[-1] += word
            elif _is_unit_of_money(words, gap):
                pieces[-1] += _INNER_SPACE + word
            else:
                pieces.append(word)
        # No unescaping: a text's own '&lt;' is to come back as it was.
        text = str(self._detokenizer().detokenize(pieces, unescape=False))
        return text.replace(_INNER_SPACE, " ")

    def _cut_by_rules(self, words: Sequence[str]) -> set[int]:
        """The gaps (gap n is before word n) that the rules made within one written word.

        The rules themselves say so: together, the parts would be cut in the same places again. Free
        standing "can not" and " - " are cut alike, but are rarer than "cannot" and "T-shirt".
        """
        # An unknown word takes hyphens and endings as any other.
        words = ["x" if word == SPECIALS[UNK_ID] else word for word in words]
        gaps = set()
        for gap in range(1, len(words)):
            before, word = words[gap - 1], words[gap]
            if word in _INNER_MARKS:
                after = words[gap + 1] if gap + 1 < len(words) else " "
                if before[-1].isalnum() and after[0].isalnum() and self._cuts(before, word, after):
                    gaps |= {gap, gap + 1}
            elif _may_be_one_word(before, word) and self._cuts(before, word):
                gaps.add(gap)
        return gaps

    def _cuts(self, *parts: str) -> bool:
        return self._cut("".join(parts)) == list(parts)

    def _detokenizer(self) -> Any:
        if self._moses is None:
            from sacremoses import MosesDetokenizer

            self._moses = MosesDetokenizer(
                self._language if self._language in _MOSES_LANGUAGES else "xx"
            )
        return self._moses


def _may_be_one_word(before: str, word: str) -> bool:
    """Whether two parts look like "do" + "n't", "man" + "'s", "l'" + "homme", "can" + "not"."""
    if word[0].isalpha():
        return before[-1].isalpha() or (before[-1] in _APOSTROPHES and len(before) > 1)
    return word[0] in _APOSTROPHES and word[1:].isalpha() and before[-1].isalnum()


def _is_unit_of_money(words: Sequence[str], place: int) -> bool:
    """Whether a sign is after its amount, "3,50 €"; sacremoses takes all to be as in "$20"."""
    sign = words[place]
    if len(sign) != 1 or unicodedata.category(sign) != "Sc" or not words[place - 1][-1].isdigit():
        return False
    return place + 1 == len(words) or not words[place + 1][0].isdigit()


def _beside_quotes(words: Sequence[str], language: str) -> set[int]:
    """The gaps inside quotation marks, and those of a single quote that is an apostrophe."""
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
            gaps |= _after(words, partner) | _before(words, place)
            paired |= {partner, place}
            del opened[opened.index(partner) :]
    for place in range(1, len(words)):
        # "the boys' room", "Maus' Nase": no quotation mark
        is_genitive = words[place] in ("'", "’") and words[place - 1][-1] in "sxz"
        if is_genitive and place not in paired:
            gaps.add(place)
    return gaps


def _after(words: Sequence[str], place: int) -> set[int]:
    """The gap after an opening mark, and those after more opening marks right there."""
    gaps = {place + 1}
    while words[place + 1] in _OPENING_PUNCTUATION and place + 2 < len(words):
        place += 1
        gaps.add(place + 1)
    return gaps


def _before(words: Sequence[str], place: int) -> set[int]:
    """The gap before a closing mark, and those before more closing marks right there."""
    gaps = {place}
    while place > 1 and words[place - 1] in _CLOSING_PUNCTUATION:
        place -= 1
        gaps.add(place)
    return gaps
