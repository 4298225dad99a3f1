"""Code shared by all readers, which read units: lines, records, entries and the like."""

import codecs
import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from transformer_cli.base.errors import CorpusError, did_you_mean
from transformer_cli.config.languages import base_language, normalize_language
from transformer_cli.data.corpus import PairSource, hash_files, mtime_key_of

MAX_SIDE_CHARACTERS = 1 << 20  # a longer source or target counts as damaged

# From this many units on, a pass is judged while it runs, to find a wrong file early.
_ENOUGH_UNITS = 1000
_ENOUGH_FOR_ALL = 100
_SPACES = re.compile(r"[ \t\r\n]+")
_ASCII = bytes(range(128))
_UTF_16 = ("utf-16", "utf-16-le", "utf-16-be")

Unit = tuple[str, str] | CorpusError  # a pair, or the reason why it cannot be read


@dataclass
class BadUnits:
    """Counts of all units and of damaged units in one pass over a source."""

    units: int = 0  # all units, damaged or not; each pair of a translation unit counts as one
    count: int = 0
    why: str | None = None  # the message about the first damaged unit, which names file and line

    def add(self, message: str, max_share: float) -> None:
        """Count the latest unit as damaged. Once enough units have been read, call ``check``."""
        self.count += 1
        self.why = self.why or message
        if self.units >= (_ENOUGH_FOR_ALL if self.count == self.units else _ENOUGH_UNITS):
            self.check(max_share)

    def check(self, max_share: float) -> None:
        """Raise CorpusError if all units, or more than the fraction ``max_share``, are damaged."""
        if self.count and self.count == self.units:
            raise CorpusError(self.why)
        if self.count > max_share * self.units:
            raise CorpusError(
                f"{self.why}; {self.count:,} of {self.units:,} units are damaged, "
                f"{self.count / self.units:.2%}, but the limit is {max_share:.2%} (kind corpus: "
                "data.max_bad_units)"
            )


@dataclass(frozen=True)
class UnitReader(PairSource):
    """A source with one or more files; each iteration over its pairs reads them again."""

    path: Path  # as configured; it may have wildcards
    paths: tuple[Path, ...]
    max_bad_units: float
    bad: BadUnits = field(default_factory=BadUnits, compare=False, kw_only=True)

    @abstractmethod
    def units(self, file: Path) -> Iterable[Unit]:
        """Yield a file's pairs and its errors; raise CorpusError if reading cannot continue."""

    def nothing_found(self) -> str:
        """Return the reason why there are no pairs."""
        return "has no pairs"

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield all pairs in order, blank ones included, with each side on one line.

        Raise CorpusError if a file cannot be read, if too many units are damaged or, at the end, if
        there are no pairs; raise MissingExtraError if the format's package is not installed.
        """
        bad = self.bad
        bad.units, bad.count, bad.why = 0, 0, None
        for file in self.paths:
            for unit in self.units(file):
                bad.units += 1
                if isinstance(unit, CorpusError):
                    bad.add(str(unit), self.max_bad_units)
                else:
                    yield unit
        bad.check(self.max_bad_units)
        if not bad.units:
            raise CorpusError(f"{self.path}: {self.nothing_found()}")

    def source_sha256(self) -> str:
        return hash_files(self.paths)

    def mtime_key(self) -> str | None:
        return mtime_key_of(self.paths)


class InvalidTextError(ValueError):
    """An error in one side of a pair; the message does not name the file or line."""


def one_line(text: str, what: str) -> str:
    """Return a side of a pair on one line; ``what`` names its column or field in messages.

    Whitespace with a line break or a tab becomes a space, or is removed at either end.

    Raise InvalidTextError if it is longer than ``MAX_SIDE_CHARACTERS``, or has a lone surrogate.
    """
    if len(text) > MAX_SIDE_CHARACTERS:
        raise InvalidTextError(f"{what}: longer than {MAX_SIDE_CHARACTERS:,} characters")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:  # e.g. "\ud800" in JSON
            raise InvalidTextError(f"{what} has half a surrogate pair") from None
    if "\n" in text or "\t" in text or "\r" in text:
        text = _SPACES.sub(lambda spaces: " " if spaces[0].strip(" ") else spaces[0], text)
        return text.strip(" ")
    return text


def comparable_code(languages: Sequence[str]) -> Callable[[str], str]:
    """Return a function that shortens language codes but keeps the given ``languages`` distinct.

    It returns the base language, or the whole code if both have the same base, as pt-BR and pt-PT.
    """
    if len(set(map(base_language, languages))) == len(languages):
        return base_language
    return lambda name: normalize_language(name.strip()) or name


def no_such(what: str, name: str, known: Collection[str]) -> str:
    """Return a phrase about a missing column or field that lists or suggests existing ones."""
    if hint := did_you_mean(name, known):
        return f"no {what} '{name}'; {hint}"
    shown = ", ".join(f"'{other[:40]}'" for other in list(known)[:10])
    return f"no {what} '{name}'; there {'is' if len(known) == 1 else 'are'} {shown or 'none'}"


def find_encoding(declared: str, utf16: bool = False) -> str | None:
    """Return Python's name for the encoding that a file declares, or None if it is not supported.

    All supported encodings but UTF-16 decode ASCII bytes as ASCII, one at a time, in linear time.
    UTF-16 is supported if ``utf16`` is true, as for XML; other formats declare encodings in ASCII.
    Readers drop a byte order mark, so for 'utf-8-sig' this returns 'utf-8'.
    """
    try:
        name = codecs.lookup(declared).name.removesuffix("-sig")
        if utf16 and name in _UTF_16:
            return name
        # idna raises errors of its own, mac-arabic has two codes for digits, and the others give
        # some ASCII sequences another meaning.
        is_odd = re.search("idna|iso2022|escape|arabic|farsi|charmap", name)
        if is_odd or _ASCII.decode(name) != _ASCII.decode():
            return None
    except (LookupError, ValueError):
        return None
    return name
