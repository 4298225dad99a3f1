"""What all readers share: units that may be damaged, and how much of them; texts, lines, files."""

import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from transformer_cli.base.errors import CorpusError, did_you_mean
from transformer_cli.config.choices import DecodingErrors
from transformer_cli.config.languages import base_language, normalize_language
from transformer_cli.data.corpus import PairSource, hash_files, mtime_key_of
from transformer_cli.text.lines import decode_line, without_byte_order_mark

MAX_SIDE_CHARACTERS = 1 << 20
"""Longest text of a side: what is longer is damage, and might not fit into memory."""

# From here on a pass is judged while it runs, so that hours are not spent on a wrong file.
_ENOUGH_UNITS = 1000
_ENOUGH_FOR_ALL = 100
_SPACES = re.compile(r"[ \t\r\n]+")

Unit = tuple[str, str] | CorpusError  # a pair, or why it cannot be read
T = TypeVar("T")
Numbered = Iterator[tuple[int, T | CorpusError]]
"""Records with the numbers of their lines or rows, from 1; or why one cannot be read."""

ROW_ADVICE = "correct or remove the row"  # what to do about a row of a table that cannot be used


@dataclass
class BadUnits:
    """Units that could not be read in the latest pass: lines, records or translation units."""

    units: int = 0  # all units, damaged or not; each pair of a translation unit counts as one
    count: int = 0
    why: str | None = None
    """Message of the first one, with file, line or unit, and field; None: there is none."""

    def add(self, message: str, max_share: float) -> None:
        """Count a damaged unit, the last one of ``units``; raise what ``check`` does if it can."""
        self.count += 1
        self.why = self.why or message
        if self.units >= (_ENOUGH_FOR_ALL if self.count == self.units else _ENOUGH_UNITS):
            self.check(max_share)

    def check(self, max_share: float) -> None:
        """Raise a CorpusError if all units are damaged, or a larger share than ``max_share``."""
        if self.count and self.count == self.units:
            raise CorpusError(self.why)
        if self.count > max_share * self.units:
            raise CorpusError(
                f"{self.why}; of {self.units:,} units {self.count:,} are damaged, "
                f"{self.count / self.units:.2%}, and at most {max_share:.2%} may be (kind corpus: "
                "data.max_bad_units)"
            )


@dataclass(frozen=True)
class UnitReader(PairSource):
    """A source of one or several files, read again on each use."""

    path: Path  # as it was configured, perhaps with wildcards
    files: tuple[Path, ...]
    max_bad_units: float
    bad: BadUnits = field(default_factory=BadUnits, compare=False, kw_only=True)

    @abstractmethod
    def units(self, file: Path) -> Iterable[Unit]:
        """Yield the units of a file; raise a CorpusError if it cannot be read on."""

    def nothing_found(self) -> str:
        """Return why there may be no pairs."""
        return "there are no pairs in it"

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield each pair, in order, on one line each, blank ones included.

        Raises:
            CorpusError: a file cannot be read, more of its units are damaged than may be, or at
                the end: there are no pairs.
            MissingExtraError: the package that reads the format is not installed.
        """
        bad = self.bad
        bad.units, bad.count, bad.why = 0, 0, None
        for file in self.files:
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
        return hash_files(self.files)

    def mtime_key(self) -> str | None:
        return mtime_key_of(self.files)


class InvalidTextError(ValueError):
    """A side of a pair that cannot be used; the message lacks the place."""


def one_line(text: str, what: str) -> str:
    """Return a side of a pair on one line; ``what`` is its column or field, for messages.

    White space with a line break or a tab in it becomes a space, or nothing at either end. What is
    longer than ``MAX_SIDE_CHARACTERS``, or has half a surrogate pair, is an InvalidTextError.
    """
    if len(text) > MAX_SIDE_CHARACTERS:
        raise InvalidTextError(f"{what}: longer than {MAX_SIDE_CHARACTERS:,} characters")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:  # as "\ud800" in JSON
            raise InvalidTextError(f"{what} has half a surrogate pair") from None
    if "\n" in text or "\t" in text or "\r" in text:
        text = _SPACES.sub(lambda spaces: " " if spaces[0].strip(" ") else spaces[0], text)
        return text.strip(" ")
    return text


def comparable_code(languages: Sequence[str]) -> Callable[[str], str]:
    """Return what tells text's languages apart, given a pair of them.

    It is the base language, or all of a name where that is the same in both: pt-BR and pt-PT.
    """
    if len(set(map(base_language, languages))) == len(languages):
        return base_language
    return lambda name: normalize_language(name.strip()) or name


def no_such(what: str, name: str, known: Collection[str]) -> str:
    """Return the words for a column or field that is not there, with the ones that are."""
    if hint := did_you_mean(name, known):
        return f"no {what} '{name}'; {hint}"
    shown = ", ".join(f"'{other[:40]}'" for other in list(known)[:10])
    return f"no {what} '{name}'; there {'is' if len(known) == 1 else 'are'} {shown or 'none'}"


def numbered_lines(
    raw_lines: Iterable[bytes], name: str, errors: DecodingErrors = "strict"
) -> Numbered[str]:
    """Yield the decoded lines of a text file, numbered from 1.

    Raises:
        CorpusError: it is compressed.
    """
    for number, raw in enumerate(raw_lines, start=1):
        if number == 1:
            raw = without_byte_order_mark(raw, name)
            if not raw:
                return
        try:
            yield number, decode_line(raw, name, number, errors)
        except CorpusError as error:
            yield number, error
