"""Restore the usual casing of words in lines."""

import unicodedata
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from transformer_cli.extensions.truecasing.lines import (
    SENTENCE_END,
    Casing,
    spelling_key,
    to_lower,
    to_upper,
    words_of,
)

_MIN_SURPLUS = 3  # words: less does not show how words with an ending are written


def restore(line: str, written: Casing, record: Mapping[str, Any]) -> str:
    """Return a line in the casing of ordinary text; return ``line`` itself if it may be right.

    Args:
        line: the line.
        written: what ``casing_of`` returned for it.
        record: what ``learning.learn_casing`` returned, with the key 'src_lang'.
    """
    language = record["src_lang"]
    table = _open_table(record["words"], language)
    text = unicodedata.normalize("NFC", line)
    words = [*words_of(text)]
    usual = [table.get(spelling_key(word, language)) for word, _, _ in words]
    is_sentence = bool(SENTENCE_END.search(text, max(0, len(text.rstrip()) - 2)))
    if not _is_unusual(written, words, usual, record["capital_first"], is_sentence):
        return line
    restored, end = [], 0
    for (word, starts_sentence, place), known in zip(words, usual, strict=True):
        own = known or _guess(word, record["words"], language)
        if starts_sentence and record["capital_first"]:
            own = capitalized(own, language)
        restored += [text[end:place], own]
        end = place + len(word)
    return rewritten(line, "".join((*restored, text[end:])))


def rewritten(line: str, text: str) -> str:
    """Return ``text`` with the attributes that ``line`` may have, e.g. a tag."""
    made = str.__new__(type(line), text)
    for name, value in getattr(line, "__dict__", {}).items():
        setattr(made, name, value)
    return made


def capitalized(word: str, language: str) -> str:
    """Return a word with a capital first letter."""
    return to_upper(word[:1], language) + word[1:]


@lru_cache(maxsize=4)
def _open_table(words: str, language: str) -> dict[str, str]:
    """Return the words, keyed by what all spellings of each have in common."""
    return {spelling_key(word, language): word for word in words.split()}


def _guess(word: str, words: str, language: str) -> str:
    """Return an unknown word with a capital if most words with the same ending have one."""
    small, capitals = to_lower(word, language), _count_capitals(words, language)
    known = (capitals[each] for each in _endings(spelling_key(word, language)))
    surplus = next((count for count in known if abs(count) >= _MIN_SURPLUS), 0)
    return capitalized(small, language) if surplus > 0 else small


@lru_cache(maxsize=4)
def _count_capitals(words: str, language: str) -> Counter[str]:
    """Return, for each ending, the number of words with a capital minus those without."""
    counts: Counter[str] = Counter()
    for key, word in _open_table(words, language).items():
        for ending in _endings(key):
            counts[ending] += 1 if word[0].isupper() else -1
    return counts


def _endings(key: str) -> list[str]:
    """Return the ends of a word, the longest first."""
    return [key[-length:] for length in range(min(5, len(key)), 1, -1)] + [""]


def _is_unusual(
    written: Casing,
    words: list[tuple[str, bool, int]],
    usual: list[str | None],
    capital_first: bool,
    is_sentence: bool,
) -> bool:
    """Return whether enough words have another casing than usual; a title is no evidence."""
    others = sum(
        known is not None
        and known != word
        and (not starts_sentence or (written == "upper" and len(word) > 1))
        for (word, starts_sentence, _), known in zip(words, usual, strict=True)
    )
    if written == "title":
        return others > (1 if is_sentence else 2)
    if written == "lower" and capital_first and words and words[0][1]:
        others += len(words) > 2
    return others > (written == "upper")
