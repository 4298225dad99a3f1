"""Terms: source words with required translations; find them in a line and its translation.

Words are compared ignoring case. A word that ends in '*' stands for all words that begin with
the characters before it, so 'Paket*' matches 'Pakete'.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from transformer_cli.extensions.verbatim.characters import MARKS, SPACELESS

# A punctuation mark is a word, and so is the underscore of '_Datei' (an accelerator in menus).
_WORD = re.compile(rf"[{SPACELESS}]|[^\W_{SPACELESS}](?:[^\W{SPACELESS}]|[{MARKS}])*+|[^\w\s]|_")


class Word(NamedTuple):
    """A word of a line, case-folded, and where it starts and ends in the line."""

    text: str
    start: int
    end: int


def split_words(line: str) -> list[Word]:
    """Return the words and punctuation marks of a line."""
    return [Word(match[0].casefold(), *match.span()) for match in _WORD.finditer(line)]


class Term(NamedTuple):
    """A term: its words in the source language, and its translations."""

    source: tuple[str, ...]
    target: str  # the required translation: the first one
    accepted: tuple[tuple[str, ...], ...]  # the words of all translations; each is accepted


class FoundTerm(NamedTuple):
    """A term, and where it starts and ends in a line."""

    term: Term
    start: int
    end: int


def read_pattern(text: str) -> tuple[str, ...]:
    """Split a term or its translation into words; raise ValueError for no words or a wrong '*'."""
    words: list[str] = []
    end = -1
    for word in split_words(text):
        is_adjacent = word.start == end
        if word.text == "*" and is_adjacent and words[-1][0].isalnum():
            words[-1] += "*"
        elif is_adjacent and words[-1].endswith("*") and word.text[0].isalnum():
            raise ValueError(f"'{text}': '*' must be at the end of a word")
        else:
            words.append(word.text)
        end = word.end
    if not any(word.strip("*") for word in words):
        raise ValueError("no word")
    return tuple(words)


def make_term(source: str, targets: Sequence[str]) -> Term:
    """Make a term from its source and translations as users write them; see ``read_pattern``."""
    asked = re.sub(rf"(?<=[\w{MARKS}])\*", "", targets[0])
    return Term(read_pattern(source), asked, tuple(map(read_pattern, targets)))


@dataclass(frozen=True)
class TermList:
    """The terms from a terms file; its methods find them in lines and translations."""

    terms: Sequence[Term]

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 checksum of the terms."""
        return hashlib.sha256(repr(self.terms).encode()).hexdigest()

    @cached_property
    def _by_first_word(self) -> dict[str, list[Term]]:
        """The terms, keyed by first word; terms with fewer '*' come first."""
        found = defaultdict(list)
        for term in sorted(self.terms, key=lambda term: sum(map(_is_open, term.source))):
            found[term.source[0]].append(term)
        return found

    @cached_property
    def _prefix_lengths(self) -> list[int]:
        """The lengths of first words that end in '*', not counting the '*'."""
        return sorted({len(word) - 1 for word in self._by_first_word if _is_open(word)})

    def find(self, line: str, left_out: Iterable[tuple[int, int]] = ()) -> list[FoundTerm]:
        """Return the terms in a line, in order. Of overlapping terms, only the longest counts.

        Terms that overlap ``left_out`` spans, e.g. placeholders, do not count.
        """
        words = split_words(line)
        texts = [word.text for word in words]
        matches = [
            (words[place + len(term.source) - 1].end - word.start, place, term)
            for place, word in enumerate(words)
            for term in self._beginning_with(word.text)
            if _fits(term.source, texts, place)
        ]
        signs = bytearray(len(line))
        for start, end in left_out:
            signs[start:end] = b"\1" * (end - start)
        taken = bytearray(any(signs[word.start : word.end]) for word in words)
        found = []
        for _, place, term in sorted(matches, key=lambda match: -match[0]):
            own = slice(place, place + len(term.source))
            if not any(taken[own]):
                taken[own] = b"\1" * len(term.source)
                found.append(FoundTerm(term, words[place].start, words[own.stop - 1].end))
        return sorted(found, key=lambda each: each.start)

    def _beginning_with(self, word: str) -> Iterator[Term]:
        yield from self._by_first_word.get(word, ())
        for length in self._prefix_lengths:
            if length <= len(word):
                yield from self._by_first_word.get(f"{word[:length]}*", ())


def describe_kept(terms: int, lost: int) -> str:
    """Return a message about how many of a text's terms its translation keeps."""
    return f"{terms - lost:,} of {terms:,} terms are kept, {1 - lost / terms:.1%}"


def lost_terms(terms: Sequence[Term], translation: str) -> list[Term]:
    """Return the terms that a translation lacks; a term needed twice may be listed twice."""
    texts = [word.text for word in split_words(translation)] if terms else []
    taken = bytearray(len(texts))
    lost = []
    for term in terms:
        places = (
            slice(place, place + len(words))
            for words in sorted(term.accepted, key=len, reverse=True)
            for place in range(len(texts))
            if _fits(words, texts, place) and not any(taken[place : place + len(words)])
        )
        if own := next(places, None):
            taken[own] = b"\1" * (own.stop - own.start)
        else:
            lost.append(term)
    return lost


def _is_open(word: str) -> bool:
    return len(word) > 1 and word.endswith("*")


def _fits(pattern: Sequence[str], texts: Sequence[str], place: int) -> bool:
    """Return whether the words from index ``place`` on match a pattern."""
    own = texts[place : place + len(pattern)]
    return len(own) == len(pattern) and all(
        text.startswith(word[:-1]) if _is_open(word) else text == word
        for word, text in zip(pattern, own, strict=True)
    )
