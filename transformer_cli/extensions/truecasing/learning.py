"""Learn the usual casing of words from text."""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any

from transformer_cli.extensions.truecasing.lines import casing_of, spelling_key, to_lower, words_of

MOST_BYTES = 400_000
"""The size of the table in UTF-8; frequent words come first."""
_MIN_CAPITAL_FIRST = 0.95  # share of lines that begin with a capital


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
        for word, starts_sentence, _ in words_of(line):
            if not starts_sentence:
                counts[word] += 1
        if letter := next(filter(str.isalpha, line), ""):
            first[letter.isupper()] += letter.isupper() or letter.islower()
    best: dict[str, tuple[int, str]] = {}
    total: Counter[str] = Counter()
    for word, count in counts.items():
        key = spelling_key(word, language)
        if key != to_lower(word, language):  # its script has two cases
            best[key] = max(best.get(key, (0, "")), (count, word))
            total[key] += count
    # Each word takes at least two bytes, as a space follows it; the last one may be cut.
    words = "".join(f"{best[key][1]} " for key, _ in total.most_common()[: MOST_BYTES // 2])
    whole, _, _ = words.encode()[:MOST_BYTES].rpartition(b" ")
    return {
        "words": whole.decode(),
        "capital_first": first[True] >= _MIN_CAPITAL_FIRST * max(1, first.total()),
    }
