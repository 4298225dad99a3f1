"""Learn the usual casing of words from text, and restore it in lines."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache, partial
from typing import Any

from transformer_cli.extensions.truecasing.lines import Casing, casing_of
from transformer_cli.extensions.verbatim.verbatim_parts import find_verbatim

MOST_BYTES = 400_000
"""The size of the table in UTF-8; frequent words come first."""
_WORD = re.compile(r"(?:[^\W\d_][\u0300-\u036f]*)+")
_SENTENCE_END = re.compile(r"[.!?:…。！？]")
_DOTTED = ("tr", "az")  # languages in which I is the capital of ı, and İ that of i
_MIN_SURPLUS = 3  # words: less does not show how words with an ending are written
_DIGIT = re.compile(r"\d")
_MIN_CAPITAL_FIRST = 0.95  # share of lines that begin with a capital


# --- casing in some language ----------------------------------------------------------------------


def to_upper(text: str, language: str) -> str:
    """Return a text in capitals, by Unicode's rules: ß becomes SS, and in Turkish, i becomes İ."""
    return (text.replace("i", "İ") if language in _DOTTED else text).upper()


def to_lower(text: str, language: str) -> str:
    """Return a text without capitals; in Turkish, I becomes ı."""
    if language in _DOTTED:
        text = text.replace("I", "ı").replace("İ", "i")
    return text.lower()


def _capitalized(word: str, language: str) -> str:
    return to_upper(word[0], language) + word[1:]


def _key(word: str, language: str) -> str:
    """Return what all spellings of a word have in common."""
    return to_upper(word, language).replace("ẞ", "SS")


# --- learning -------------------------------------------------------------------------------------


def learn_casing(lines: Iterable[str], language: str) -> dict[str, Any]:
    """Return the usual casing of the words in ``lines``, as part of a codec's record.

    Keys: 'words', the most frequent words, each in its most frequent casing within a sentence; and
    'capital_first', whether lines usually begin with a capital.
    """
    counts: Counter[str] = Counter()
    first: Counter[bool] = Counter()
    for line in map(partial(unicodedata.normalize, "NFC"), lines):
        if casing_of(line) is not None:
            continue
        for word, starts_sentence, _ in _words(line):
            if not starts_sentence:
                counts[word] += 1
        if letter := next(filter(str.isalpha, line), ""):
            first[letter.isupper()] += letter.isupper() or letter.islower()
    best: dict[str, tuple[int, str]] = {}
    total: Counter[str] = Counter()
    for word, count in counts.items():
        key = _key(word, language)
        if key != to_lower(word, language):  # its script has two cases
            best[key] = max(best.get(key, (0, "")), (count, word))
            total[key] += count
    return {
        "words": " ".join(_limited(best[key][1] for key, _ in total.most_common())),
        "capital_first": first[True] >= _MIN_CAPITAL_FIRST * max(1, first.total()),
    }


def _words(line: str) -> Iterator[tuple[str, bool, int]]:
    """Yield the words outside verbatim parts: word, whether it starts a sentence, place."""
    spans = [(start, end) for _, start, end in find_verbatim(line)]
    spans.reverse()
    end, starts = 0, True
    for match in _WORD.finditer(line):
        while spans and spans[-1][1] <= match.start():
            spans.pop()
        between = line[end : match.start()]
        starts = (starts or bool(_SENTENCE_END.search(between))) and not _DIGIT.search(between)
        end = match.end()
        if not (spans and spans[-1][0] < end):
            yield match[0], starts, match.start()
        starts = False


def _limited(words: Iterator[str]) -> Iterator[str]:
    size = 0
    for word in words:
        size += len(word.encode()) + 1
        if size > MOST_BYTES:
            return
        yield word


# --- restoring ------------------------------------------------------------------------------------


def restore(line: str, written: Casing, record: Mapping[str, Any]) -> str:
    """Return a line in the casing of ordinary text; return ``line`` itself if it may be right.

    Args:
        line: the line.
        written: what ``casing_of`` returned for it.
        record: what ``learn_casing`` returned, with the key 'src_lang'.
    """
    language = record["src_lang"]
    table = _open_table(record["words"], language)
    text = unicodedata.normalize("NFC", line)
    words = [*_words(text)]
    usual = [table.find(word) for word, _, _ in words]
    is_sentence = bool(_SENTENCE_END.search(text, max(0, len(text.rstrip()) - 2)))
    if not _is_unusual(written, words, usual, record["capital_first"], is_sentence):
        return line
    restored, end = [], 0
    for (word, starts_sentence, place), known in zip(words, usual, strict=True):
        own = known or table.guess(word)
        if starts_sentence and record["capital_first"]:
            own = _capitalized(own, language)
        restored += [text[end:place], own]
        end = place + len(word)
    return "".join((*restored, text[end:]))


class _Table:
    """The usual casing of words; guesses the casing of unknown words from their last letters."""

    def __init__(self, words: str, language: str) -> None:
        self._language = language
        self._words = {_key(word, language): word for word in words.split()}

    @cached_property
    def _capitals(self) -> Counter[str]:
        """For each ending, the number of words with a capital minus those without."""
        counts: Counter[str] = Counter()
        for key, word in self._words.items():
            for ending in _endings(key):
                counts[ending] += 1 if word[0].isupper() else -1
        return counts

    def find(self, word: str) -> str | None:
        """Return a word in its usual casing, or None if it is unknown."""
        return self._words.get(_key(word, self._language))

    def guess(self, word: str) -> str:
        """Return an unknown word with a capital if most words with the same ending have one."""
        small = to_lower(word, self._language)
        known = (self._capitals[each] for each in _endings(_key(word, self._language)))
        surplus = next((count for count in known if abs(count) >= _MIN_SURPLUS), 0)
        return _capitalized(small, self._language) if surplus > 0 else small


_open_table = lru_cache(maxsize=4)(_Table)


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
