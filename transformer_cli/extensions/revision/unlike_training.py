"""Copy lines that are so unlike the training text that the model would write nonsense for them.

In another script, or in base64, a line has many times as many tokens as ordinary text, and the
search takes many times as long.
"""

import re
from functools import cached_property
from statistics import median
from typing import Any

from transformer_cli.config.languages import has_spaces
from transformer_cli.extensions.revision.foreign_scripts import script_of, scripts_of
from transformer_cli.extensions.verbatim.verbatim_parts import without_verbatim
from transformer_cli.inference.translation import EncodedLine
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.text.protocol import SPECIALS

MIN_LETTERS_PER_TOKEN = 1.5
"""Ordinary text in languages with spaces has about four."""
FEWEST_TOKENS = 30
"""The length of the shortest line that is copied; a shorter one may be a list of foreign names."""
FEWEST_EQUAL_TOKENS, MOST_KINDS = 50, 4
"""A line of so many tokens is copied if it has at most so many different ones."""
MAX_UNKNOWN_LETTERS = 0.75
"""The largest share of a line's letters that may be in another script and not in the vocabulary."""
_USUAL_LENGTH = 3  # of a token, if words are split at spaces
_BYTE = re.compile("<0x[0-9A-F]{2}>")


class Sparing(TextTranslator[Any]):
    """A translator that copies lines that are unlike the training text."""

    def encode_line(self, text: str) -> EncodedLine:
        """Encode a line as ``TextTranslator`` does; but a line to copy has no pieces."""
        line = super().encode_line(text)
        # Another class of line has something to translate, e.g. a prefix.
        if type(line) is EncodedLine and self._is_unlike_training(line):
            return EncodedLine(text, line.source, [], is_copied=True)
        return line

    def _is_unlike_training(self, line: EncodedLine) -> bool:
        """Return whether a line is in an unknown script, or has too many or too similar tokens."""
        if self._has_unknown_letters(line.text):
            return True
        ids = line.source.ids
        if len(ids) < FEWEST_TOKENS:
            return False
        if len(ids) >= FEWEST_EQUAL_TOKENS and len(set(ids)) <= MOST_KINDS:
            return True
        letters = sum(map(str.isalpha, line.text))
        if len(ids) * MIN_LETTERS_PER_TOKEN <= letters or not self._has_long_tokens:
            return False
        # Punctuation and digits are tokens of one character in ordinary text, too.
        spelling = sum(map(_spells_letters, map(self.tokenizers.src.token, ids)))
        return spelling >= FEWEST_TOKENS and spelling * MIN_LETTERS_PER_TOKEN > letters

    def _has_unknown_letters(self, text: str) -> bool:
        """Return whether most letters are in another script, and the vocabulary lacks them."""
        scripts = scripts_of(self.config.data.src_lang)
        if scripts is None or ("LATIN" in scripts and text.isascii()):
            return False
        if scripts.issuperset(map(script_of, filter(str.isalpha, text))):
            return False
        letters = list(filter(str.isalpha, without_verbatim(text).lower()))
        foreign = [letter for letter in letters if script_of(letter) not in scripts]
        unknown = sum(letter not in self._alphabet for letter in foreign)
        return unknown > MAX_UNKNOWN_LETTERS * len(letters)

    @cached_property
    def _alphabet(self) -> frozenset[str]:
        return frozenset("".join(self._tokens).lower())

    @cached_property
    def _tokens(self) -> list[str]:
        """The tokens of the source vocabulary, without those of single bytes."""
        tokenizer = self.tokenizers.src
        tokens = map(tokenizer.token, range(len(SPECIALS), tokenizer.text_size))
        return [each for each in tokens if not _BYTE.fullmatch(each)]

    @cached_property
    def _has_long_tokens(self) -> bool:
        """Whether ordinary lines have fewer tokens than letters."""
        lengths = [len(each.removeprefix("▁")) for each in self._tokens]
        is_spaced = has_spaces(self.config.data.src_lang)
        return is_spaced and median([0, *lengths]) >= _USUAL_LENGTH


def _spells_letters(token: str) -> bool:
    return bool(_BYTE.fullmatch(token)) or any(map(str.isalpha, token))
