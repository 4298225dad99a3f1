"""Which word of a text each of its tokens begins in; light to import."""

import unicodedata
from collections.abc import Sequence

# How many letters on a token is looked for: some are lost between tokens, and more where a token
# does not show its letters, as unknown ones and bytes do not.
_NEAR, _FAR = 16, 1024


def map_tokens_to_words(text: str, tokens: Sequence[str]) -> list[int]:
    """Return the number of the word of ``text`` that each of its tokens begins in.

    Words are what white space separates, counted from 0. Tokens are found by their letters, so that
    it does not matter what a tokenizer makes of spaces, of case and of how characters are coded.

    Args:
        text: one line.
        tokens: as shown to a person, in their order.

    Returns:
        A number a token; nothing if the text has no words.
    """
    letters, numbers = "", []
    for number, word in enumerate(text.split()):
        plain = _plain(word)
        letters += plain
        numbers += [number] * len(plain)
    if not numbers:
        return []
    found, place, reach = [], 0, _NEAR
    for token in tokens:
        plain = _plain(token)
        at = letters.find(plain, place, place + len(plain) + reach)
        found.append(numbers[min(max(at, place), len(numbers) - 1)])
        reach = _FAR if at < 0 else _NEAR
        if at >= 0:
            place = at + len(plain)
    return found


def _plain(text: str) -> str:
    """Return the letters of a text and its marks, without invisible characters."""
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    return "".join(
        letter
        for letter in decomposed
        if letter != "▁" and not letter.isspace() and unicodedata.category(letter)[0] != "C"
    )
