"""All checks of one split of a corpus, in one pass.

Beside the text's different characters, 30 bytes a pair are held: two digests, a ratio and flags.
"""

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from transformer_cli.audit.shift import ShiftCheck
from transformer_cli.config.choices import LONGEST_SOURCE
from transformer_cli.config.data_schema import FilterName
from transformer_cli.config.schema import Config
from transformer_cli.data.corpus import (
    NO_DIGEST,
    Digests,
    PairProgress,
    PairSource,
    in_batches,
    is_among,
)
from transformer_cli.data.filters.filter_pass import FilterPass, RepeatFilter
from transformer_cli.data.filters.rules import WARNING_SHARES, build_filters
from transformer_cli.errors import CorpusError
from transformer_cli.text.protocol import Tokenizer, Tokenizers
from transformer_cli.text.vocabulary import SPECIALS, UNK_ID

_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_ENTITY = re.compile(r"&(?:[a-z]{2,8}|#\d{2,7}|#x[0-9a-f]{2,6});", re.IGNORECASE)
# UTF-8 read as Latin-1 or Windows-1252, and written as UTF-8 again.
_TWICE_ENCODED = re.compile(
    "Ã[\u0080-\u00ba\u00bc-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u201e\u2030]|â€"
)
_ODD_CATEGORIES = frozenset(("Cc", "Co", "Cn"))  # control, private-use, unassigned
# U+FFFD and invisible ones; not joiners, with which some scripts are spelled, nor direction marks.
_ODD = frozenset("\ufffd\u00ad\u200b\u2060\ufeff\u2028\u2029\u202a\u202b\u202c\u202d\u202e")


Unit = Literal["tokens", "words", "characters"]
"""Of lengths; without tokenizers, words between spaces, where both languages have spaces."""


@dataclass
class Occurrences:
    """Number of lines or pairs with a fault, and the first few."""

    SHOWN: ClassVar[int] = 3
    count: int = 0
    first: list[tuple[int, str]] = field(default_factory=list)
    """Index of each, from 0, and a detail; at most three."""

    def add(self, index: int, detail: str = "") -> None:
        """Count one more, later than all before."""
        self.count += 1
        if len(self.first) < self.SHOWN:
            self.first.append((index, detail))


class SplitCheck:
    """Checks a split.

    ``tokenizers`` are None before they are known: lengths are in words or characters then.
    ``training`` is what is trained on, checked before; None for that itself.
    """

    def __init__(
        self,
        name: str,
        source: PairSource,
        config: Config,
        tokenizers: Tokenizers | None,
        unit: Unit,
        training: "Sequence[SplitCheck] | None" = None,
    ) -> None:
        self.name = name
        self.source = source
        self.training = training
        self.pairs = 0
        self.src_digests = Digests()
        self.long = Occurrences()
        # How many tokens so many characters are, only a tokenizer tells.
        self.max_length = sys.maxsize if unit == "characters" else self._longest(config)
        languages = (config.data.src_lang, config.data.tgt_lang)
        self._one_language = languages[0] == languages[1]
        rules = set(WARNING_SHARES) - ({"identical"} if self._one_language else set())
        typical: FilterPass | None = training[0].rules if training else None
        self.rules: FilterPass = FilterPass(build_filters(rules, *languages), typical=typical)
        self._copies = self._blank = 0
        self._shift = ShiftCheck()
        cut: Callable[[str], Sized] = list if unit == "characters" else str.split
        both = (None, None) if tokenizers is None else (tokenizers.src, tokenizers.tgt)
        self.sides = tuple(
            SideCheck(self._lacks(number, tokenizer), tokenizer.encode if tokenizer else cut)
            for number, tokenizer in enumerate(both)
        )

    def _longest(self, config: Config) -> int:
        """Return the length of a side up to which a pair is neither left out nor split."""
        if self.training is None:
            return config.training.max_length
        if config.model.positions == "learned":
            return min(LONGEST_SOURCE, config.model.max_positions - 1)
        return LONGEST_SOURCE

    def _lacks(self, side: int, tokenizer: Tokenizer | None) -> Callable[[str], bool]:
        """Return a function that tells characters that the vocabulary lacks, or the training."""
        if tokenizer is not None:
            return _unknown_to(tokenizer)
        if self.training is None:
            return lambda character: False
        seen = [split.sides[side].characters for split in self.training]
        return lambda character: not any(character in characters for characters in seen)

    def read(self, progress: PairProgress) -> None:
        """Read and check the split; raise a CorpusError if every pair has a blank side."""
        for batch in in_batches(progress(self.source.pairs(), self.name)):
            self._shift.add(batch)
            for (src, tgt), is_blank in zip(batch, self.rules.add(batch), strict=True):
                if is_blank:
                    self._blank += 1
                    self.src_digests.skip()
                else:
                    self._look_at(src, tgt)
                self.pairs += 1
        if self._blank == self.pairs:
            problem = "every pair has a blank side; nothing is left of it"
            raise CorpusError(f"split '{self.name}': {problem}")

    def _look_at(self, src: str, tgt: str) -> None:
        self.src_digests.add(src)
        self._copies += src == tgt and not self._one_language and any(map(str.isalpha, src))
        sides = zip(self.sides, (src, tgt), strict=True)
        tokens = max(side.check_line(self.pairs, line) for side, line in sides)
        if tokens > self.max_length:
            self.long.add(self.pairs, f"{tokens:,}")

    @property
    def pair_digests(self) -> Digests:
        """Digests of all pairs, of which blank ones have none."""
        return self.rules.digests("duplicates")

    def known_digests(self) -> np.ndarray:
        """Return the digests of all pairs but blank ones."""
        digests = self.pair_digests.numbers
        return np.asarray(digests[digests != NO_DIGEST])

    @property
    def is_all_copied(self) -> bool:
        """Whether each target is its source."""
        return self._copies > 0 and self._copies + self._blank == self.pairs

    def find_by_rules(self) -> Iterator[tuple[FilterName, str, Occurrences]]:
        """Yield name, summary and faults of each rule that filters go by as well."""
        for place, mask in enumerate(self.rules.rejected()):
            rule, details = self.rules.filters[place], self.rules.details(place)
            indices = np.flatnonzero(mask)
            shown = indices[: Occurrences.SHOWN].tolist()
            if isinstance(rule, RepeatFilter):
                digests = self.pair_digests.numbers
                like = {index: int(np.argmax(digests == digests[index])) for index in shown}
                details = {index: f"as line {like[index] + 1}" for index in shown}
            first = [(index, details.get(index, "")) for index in shown]
            yield rule.name, rule.summary, Occurrences(len(indices), first)

    def find_shifted(self) -> Occurrences:
        """Return the pairs whose source goes with another line's target, by stretch."""
        shifts = self._shift.find_shifts()
        return Occurrences(
            sum(shift.end - shift.first for shift in shifts),
            [(shift.first, shift.describe(self.pairs)) for shift in shifts[: Occurrences.SHOWN]],
        )

    def find_trained_on(self, digests: "Callable[[SplitCheck], Digests]") -> Occurrences:
        """Return the lines that are in the training text as well, compared by these digests."""
        first: dict[int, tuple[SplitCheck, int]] = {}
        for part in self.training or ():
            for index, like in find_in(digests(self), digests(part)).items():
                first.setdefault(index, (part, like))
        shown = sorted(first.items(), key=lambda item: item[0])[: Occurrences.SHOWN]
        places = [(index, f"as line {like + 1} of {part.name}") for index, (part, like) in shown]
        return Occurrences(len(first), places)


class SideCheck:
    """Checks the lines of one side of a split, and counts their tokens.

    ``lacks`` tells whether the vocabulary lacks a character; ``encode`` cuts a line into tokens.
    """

    def __init__(self, lacks: Callable[[str], bool], encode: Callable[[str], Sized]) -> None:
        self.characters: set[str] = set()  # all that were seen
        self.odd = Occurrences()  # lines with characters that belong in no text
        self.lacking = Occurrences()  # lines with characters that the vocabulary lacks
        self._lengths: Counter[int] = Counter()
        self._lacks = lacks
        self._encode = encode
        self._lacking_characters: set[str] = set()
        self._odd_characters: set[str] = set()

    def check_line(self, index: int, line: str) -> int:
        """Check a line that is not blank; return its number of tokens."""
        # By its different characters, since nearly all lines have none that matters.
        characters = set(line)
        if not characters <= self.characters:
            self._meet(characters - self.characters)
        if odd := self._find_odd(line, characters):
            self.odd.add(index, odd)
        if lacking := characters & self._lacking_characters:
            self.lacking.add(index, _format(lacking))
        tokens = len(self._encode(line))
        self._lengths[tokens] += 1
        return tokens

    def length_counts(self) -> np.ndarray:
        """Return the number of lines of 0, 1, 2, … tokens."""
        counts = np.zeros(max(self._lengths) + 1, dtype=np.int64)
        counts[list(self._lengths)] = list(self._lengths.values())
        return counts

    def _meet(self, new: set[str]) -> None:
        self.characters |= new
        for character in new:
            if unicodedata.category(character) in _ODD_CATEGORIES or character in _ODD:
                self._odd_characters.add(character)
            elif not character.isspace() and self._lacks(character):
                self._lacking_characters.add(character)

    def _find_odd(self, line: str, characters: set[str]) -> str:
        if odd := characters & self._odd_characters:
            return _format(odd)
        if "&" in characters and (entity := _ENTITY.search(line)):
            return entity[0]
        if ("Ã" in characters or "€" in characters) and (twice := _TWICE_ENCODED.search(line)):
            return twice[0] if twice[0].isprintable() else "Ã"
        return ""


def _format(characters: set[str]) -> str:
    """Return a few of the characters in readable form, by code point."""
    shown = sorted(characters)[:5]
    return " ".join(
        sign if sign.isprintable() and not sign.isspace() else f"U+{ord(sign):04X}"
        for sign in shown
    ) + (" …" if len(characters) > len(shown) else "")


def _unknown_to(tokenizer: Tokenizer) -> Callable[[str], bool]:
    """Return a function that tells whether a character is in no token of a vocabulary."""
    tokens = map(tokenizer.token, range(len(SPECIALS), tokenizer.text_size))
    known: set[str] = set().union(*(token for token in tokens if not _BYTE.fullmatch(token)))
    is_lowercase = not any(map(str.isupper, known))

    def lacks(character: str) -> bool:
        if known.issuperset(character.lower() if is_lowercase else character):
            return False
        # A tokenizer may also read it as another one, as SentencePiece reads 'ﬁ' as 'fi'.
        ids = tokenizer.encode(character)
        return any(number == UNK_ID or _BYTE.fullmatch(tokenizer.token(number)) for number in ids)

    return lacks


def find_in(few: Digests, many: Digests) -> dict[int, int]:
    """Return by the index of each line of one text, rising, the first like it in another one."""
    wanted, numbers = few.numbers, many.numbers
    # The other way round, the big text would have to be sorted.
    hits = np.flatnonzero(is_among(numbers, np.unique(wanted[wanted != NO_DIGEST])))
    first: dict[int, int] = {}
    for index, number in zip(hits.tolist(), numbers[hits].tolist(), strict=True):
        first.setdefault(number, index)
    return {index: first[number] for index, number in enumerate(wanted.tolist()) if number in first}
