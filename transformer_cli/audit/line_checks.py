"""Checks of single lines: odd characters, and letters of another script."""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from transformer_cli.text.scripts import script_of

_LEAST_LETTERS = 5
"""A line of fewer, an abbreviation say, tells no script."""
_ENTITY = re.compile(r"&(?:[a-z]{2,8}|#\d{2,7}|#x[0-9a-f]{2,6});", re.IGNORECASE)
# UTF-8 read as Latin-1 or Windows-1252, and written as UTF-8 again.
_TWICE_ENCODED = re.compile(
    "Ã[\u0080-\u00ba\u00bc-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u201e\u2030]|â€"
)
# Not joiners, with which some scripts are spelled, nor direction marks.
_INVISIBLE = frozenset("\u00ad\u200b\u2060\ufeff\u2028\u2029\u202a\u202b\u202c\u202d\u202e")


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


class LineChecks:
    """Checks the lines of one side of a split.

    Args:
        scripts: those of the side's language; None: any will do.
        lacks: whether the vocabulary lacks a character; called once for each.
    """

    def __init__(self, scripts: frozenset[str] | None, lacks: Callable[[str], bool]) -> None:
        self.characters: set[str] = set()
        """All that were seen."""
        self.foreign = Occurrences()
        """Lines most of whose letters are of another script."""
        self.odd = Occurrences()
        """Lines with characters that belong in no text."""
        self.lacking = Occurrences()
        """Lines with characters that the vocabulary lacks."""
        self.lacking_characters: set[str] = set()
        self._scripts = scripts
        self._lacks = lacks
        self._foreign_letters: set[str] = set()
        self._odd_characters: set[str] = set()

    def check_line(self, index: int, line: str) -> None:
        """Check a line.

        Args:
            index: its number, from 0.
            line: its text.
        """
        # By its different characters, since nearly all lines have none that matters.
        characters = set(line)
        if not characters <= self.characters:
            self._meet(characters - self.characters)
        if not characters.isdisjoint(self._foreign_letters):
            self._look_at_letters(index, line)
        if odd := self._oddity(line, characters):
            self.odd.add(index, odd)
        if lacking := characters & self.lacking_characters:
            self.lacking.add(index, format_characters(lacking))

    def _meet(self, new: set[str]) -> None:
        self.characters |= new
        for character in new:
            script = script_of(character)
            if self._scripts is not None and script is not None and script not in self._scripts:
                self._foreign_letters.add(character)
            if is_odd(character):
                self._odd_characters.add(character)
            elif not character.isspace() and self._lacks(character):
                self.lacking_characters.add(character)

    def _look_at_letters(self, index: int, line: str) -> None:
        letters = [character for character in line if character.isalpha()]
        foreign = [letter for letter in letters if letter in self._foreign_letters]
        if len(letters) >= _LEAST_LETTERS and 2 * len(foreign) > len(letters):
            self.foreign.add(index, str(script_of(foreign[0])).capitalize())

    def _oddity(self, line: str, characters: set[str]) -> str:
        if odd := characters & self._odd_characters:
            return format_characters(odd)
        if "&" in characters and (found := _ENTITY.search(line)):
            return found[0]
        if ("Ã" in characters or "€" in characters) and (found := _TWICE_ENCODED.search(line)):
            return found[0] if found[0].isprintable() else "Ã"
        return ""


def is_odd(character: str) -> bool:
    """Return whether it belongs in no text: control, invisible, private-use, U+FFFD."""
    return (
        unicodedata.category(character) in ("Cc", "Co", "Cn")
        or character == "\ufffd"
        or character in _INVISIBLE
    )


def format_characters(characters: set[str]) -> str:
    """Return a few of the characters in readable form, by code point."""
    shown = sorted(characters)[:5]
    return " ".join(
        each if each.isprintable() and not each.isspace() else f"U+{ord(each):04X}"
        for each in shown
    ) + (" …" if len(characters) > len(shown) else "")
