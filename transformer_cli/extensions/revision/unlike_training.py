"""Copy lines that are so unlike the training text that the model would write nonsense for them.

In another script, or in base64, a line has many times as many tokens as ordinary text, and the
search takes many times as long.
"""

from functools import cached_property
from statistics import median
from typing import Any

from transformer_cli.inference.translation import EncodedLine
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.text.protocol import SPECIALS

MIN_CHARACTERS_PER_TOKEN = 1.5
"""Ordinary text has about four, but in languages without spaces, it may have fewer than two."""
FEWEST_TOKENS = 20
"""The length of the shortest line that is copied; a shorter one may be a foreign name."""
FEWEST_EQUAL_TOKENS, MOST_KINDS = 50, 4
"""A line of so many tokens is copied if it has at most so many different ones."""
_USUAL_LENGTH = 3  # of a token, if words are split at spaces


class Sparing(TextTranslator[Any]):
    """A translator that copies lines that are unlike the training text."""

    def encode_line(self, text: str) -> EncodedLine:
        """Encode a line as ``TextTranslator`` does; but a line to copy has no pieces."""
        line = super().encode_line(text)
        if self._is_unlike_training(line):
            return EncodedLine(text, line.source, [], is_copied=True)
        return line

    def _is_unlike_training(self, line: EncodedLine) -> bool:
        """Return whether a line has too many tokens for its length, or few different ones."""
        ids = line.source.ids
        if len(ids) < FEWEST_TOKENS:
            return False
        if len(ids) >= FEWEST_EQUAL_TOKENS and len(set(ids)) <= MOST_KINDS:
            return True
        return len(ids) * MIN_CHARACTERS_PER_TOKEN > len(line.text) and self._has_long_tokens

    @cached_property
    def _has_long_tokens(self) -> bool:
        tokenizer = self.tokenizers.src
        numbers = range(len(SPECIALS), tokenizer.text_size)
        lengths = (len(tokenizer.token(number).removeprefix("▁")) for number in numbers)
        return median([0, *lengths]) >= _USUAL_LENGTH
