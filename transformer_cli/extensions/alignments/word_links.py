"""Aligns the words of a line and its translation, given how their tokens are aligned."""

import unicodedata
from collections.abc import Sequence

# How many letters ahead a token is searched for. Some letters are lost between tokens, and more if
# a token does not show its letters, e.g. an unknown token or a byte.
_NEAR, _FAR = 16, 1024


def align_words(
    src: str, src_tokens: Sequence[str], tgt: str, tgt_tokens: Sequence[str], aligned: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """Return index pairs (source word, target word), given each target token's source index."""
    src_words = map_tokens_to_words(src, src_tokens)
    tgt_words = map_tokens_to_words(tgt, tgt_tokens)
    if not src_words or not tgt_words:
        return ()
    links = {
        (src_words[place], word)
        for place, word, token in zip(aligned, tgt_words, tgt_tokens, strict=True)
        if src_tokens[place] and token
    }
    return tuple(sorted(links))


def map_tokens_to_words(text: str, tokens: Sequence[str]) -> list[int]:
    """Return, for each token, the index of the word of ``text`` in which the token begins.

    White space separates words, which are numbered from 0. The result is empty if ``text`` has no
    words. Tokens are found in the text by their letters, so a tokenizer may change spaces, case and
    Unicode forms.
    """
    letters, numbers = "", []
    for number, word in enumerate(text.split()):
        plain = _plain(word)
        letters += plain
        numbers += [number] * len(plain)
    if not numbers:
        return []
    words, place, reach = [], 0, _NEAR
    for token in tokens:
        plain = _plain(token)
        at = letters.find(plain, place, place + len(plain) + reach)
        words.append(numbers[min(max(at, place), len(numbers) - 1)])
        reach = _FAR if at < 0 else _NEAR
        if at >= 0:
            place = at + len(plain)
    return words


def _plain(text: str) -> str:
    """Return a text decomposed, case-folded and without invisible characters, for comparison."""
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    return "".join(
        letter
        for letter in decomposed
        if letter != "▁" and not letter.isspace() and unicodedata.category(letter)[0] != "C"
    )
