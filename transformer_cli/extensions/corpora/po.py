"""Read the entries of gettext PO files, and the pairs in them."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from gettext import c2py
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

from transformer_cli.base.errors import CorpusError
from transformer_cli.base.text_files import open_text
from transformer_cli.config.languages import base_language
from transformer_cli.extensions.corpora.units import (
    InvalidTextError,
    Unit,
    UnitReader,
    comparable_code,
    find_encoding,
    one_line,
)
from transformer_cli.text.lines import bounded_lines, without_byte_order_mark

Texts = Mapping[str, str]
"""An entry's strings, keyed by keyword: msgctxt, msgid, msgid_plural, msgstr, msgstr[0], etc."""

_MAX_BYTES = 1 << 25  # for an entry, and for a header with its comments
_LINE = re.compile(
    r"\s*+(?:(?P<comment>#.*)"
    r"|(?:(?P<key>msgctxt|msgid_plural|msgid|msgstr(?:\[\d{1,3}\])?)\s*+)?"
    r'"(?P<text>(?:[^"\\]|\\.)*+)")?\s*+'
)
_ESCAPE = re.compile(r"((?:\\x[0-9A-Fa-f]{1,2}|\\[0-7]{1,3})+)|\\(.)")
_BYTE = re.compile(r"\\(?:x([0-9A-Fa-f]+)|([0-7]+))")
ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CHARSET = re.compile(
    rb"Content-Type:(?:(?!Content-Type:)[^\n])*?charset=\s*+([\w.:-]++)", re.IGNORECASE
)
_PLURAL_FORMS = re.compile(r"nplurals\s*=\s*(\d{1,3})\s*;\s*plural\s*=([^;]*)")
_NUMBERS = range(1, 1001)
"""The values of n for finding a rule's most frequent plural form; rules use the last two digits."""


class PluralForms(NamedTuple):
    """How many plural forms a file's header describes, and the indices of two of them."""

    number: int
    one: int  # the form for one thing
    many: int  # the form for most numbers of things
    one_has_others: bool = False  # whether the form for one is also used for others, e.g. 21


@dataclass(frozen=True)
class PoReader(UnitReader):
    """A reader of PO files. It reads two plural forms: for one thing, and for most numbers."""

    languages: tuple[str, str]

    def units(self, file: Path) -> Iterator[Unit]:
        """Yield the pairs of each translated entry that is neither fuzzy nor obsolete."""
        name, plural = str(file), None
        is_swapped = self._is_swapped("", name)

        def refuse(line: int, problem: str) -> CorpusError:
            return CorpusError(f"{name}:{line + 1}: {problem}")

        with open_text(file) as raw:
            encoding, lines = _open_lines(raw, name)
            for entry in read_entries(lines, encoding, refuse):
                if is_header(entry.texts):  # fuzzy in templates
                    header = read_header(entry.texts.get("msgstr", ""))
                    is_swapped = self._is_swapped(header.get("language", ""), name)
                    plural = read_plural_forms(header.get("plural-forms", ""))
                elif not entry.is_fuzzy:
                    place = f"{name}:{entry.line + 1}"
                    yield from _pairs(entry.texts, place, plural, is_swapped)

    def nothing_found(self) -> str:
        return "has no translated entries"

    def _is_swapped(self, language: str, name: str) -> bool:
        """Return whether msgid strings are in the target language; ``language`` is the header's."""
        src, tgt = map(base_language, self.languages)
        code = language_code(language)
        if code not in ("", src, tgt):
            raise CorpusError(
                f"{name}: the header says 'Language: {language[:40]}', which is neither the source "
                f"language '{src}' nor the target language '{tgt}'"
            )
        if src == tgt:  # e.g. pt-BR and pt-PT
            comparable = comparable_code(self.languages)
            return comparable(language) == comparable(self.languages[0])
        return code == src if code else tgt == "en"  # nearly all programs have English messages


# --- files ----------------------------------------------------------------------------------------


@dataclass
class PoEntry:
    """An entry of a PO file; line numbers start at 0."""

    line: int  # the first line with a keyword
    first: int | None = None  # the first line of its comments
    texts: dict[str, str] = field(default_factory=dict)
    flags: list[int] = field(default_factory=list)  # lines
    previous: list[int] = field(default_factory=list)
    is_fuzzy: bool = False
    is_format: bool = False
    translation: range = range(0)  # lines

    @property
    def sources(self) -> list[str]:
        """The message, followed by its plural if the entry has one."""
        return [self.texts[key] for key in ("msgid", "msgid_plural") if key in self.texts]

    @property
    def forms(self) -> list[str]:
        return [key for key in self.texts if key.startswith("msgstr")]

    def add_comment(self, number: int, comment: str) -> None:
        """Record the comment on line ``number``."""
        if self.first is None:
            self.first = number
        if comment[1:2] == "|":
            self.previous.append(number)
        elif comment[1:2] in (",", "="):  # gettext 1.0 has flags in both
            self.flags.append(number)
            flags = read_flags(comment)
            self.is_fuzzy |= "fuzzy" in flags
            self.is_format |= any(re.fullmatch(r"(?!no-)[\w-]+-format", flag) for flag in flags)


def read_flags(comment: str) -> list[str]:
    """Return the flags in a comment such as '#, fuzzy, c-format'."""
    return [flag.strip() for flag in comment[2:].split(",") if flag.strip()]


def read_entries(
    lines: Iterable[str], encoding: str, refuse: Callable[[int, str], Exception]
) -> Iterator[PoEntry]:
    """Yield the entries of a PO file, except obsolete ones.

    ``encoding`` is the encoding of bytes written as escapes. ``refuse`` returns the exception to
    raise, given a line number and the problem there.
    """
    entry, key, size = PoEntry(0), "", 0
    parts: dict[str, list[str]] = {}  # lines of each text

    def end() -> PoEntry:
        entry.texts = {key: "".join(texts) for key, texts in parts.items()}
        parts.clear()
        if "msgid" not in entry.texts or not entry.forms:
            raise refuse(entry.line, "an entry without msgid or msgstr, or in the wrong order")
        return entry

    for number, line in enumerate(lines):
        match = _LINE.fullmatch(line)
        if match is None:
            raise refuse(number, "not a line of a PO file")
        comment, keyword, text = match["comment"], match["key"], match["text"]
        if entry.translation and (comment or (keyword and not keyword.startswith("msgstr"))):
            yield end()
            entry, key, size = PoEntry(0), "", 0
        size += len(line)
        if size > _MAX_BYTES:
            raise refuse(number, f"an entry with more than {_MAX_BYTES:,} characters")
        if comment:
            if comment[1:2] == "~":  # the comments before belong to an obsolete entry
                if parts:
                    raise refuse(number, "an obsolete line within an entry")
                entry, size = PoEntry(0), 0
            elif not parts:
                entry.add_comment(number, comment)
        elif keyword:
            if keyword in parts:
                raise refuse(number, f"a second {keyword} in one entry")
            if not parts:
                entry.line = number
            key = keyword
            parts[key] = [_unescape(text, encoding)]
        elif text is not None:
            if not key:
                raise refuse(number, "a text without msgid or msgstr")
            parts[key].append(_unescape(text, encoding))
        if text is not None and key.startswith("msgstr"):
            start = entry.translation.start if entry.translation else number
            entry.translation = range(start, number + 1)
    if parts:
        yield end()


def _unescape(text: str, encoding: str) -> str:
    def unescape(match: re.Match[str]) -> str:
        numbers, sign = match.groups()
        if sign is not None:
            return ESCAPES.get(sign, sign)
        codes = (int(one or other, 16 if one else 8) for one, other in _BYTE.findall(numbers))
        try:
            return bytes(code & 0xFF for code in codes).decode(encoding)
        except UnicodeError:
            return match[0]

    return _ESCAPE.sub(unescape, text) if "\\" in text else text


def _open_lines(raw: BinaryIO, name: str) -> tuple[str, Iterator[str]]:
    """Return the encoding that a PO file's header names, and all lines of the file."""
    lines = bounded_lines(raw, name)
    head: list[bytes] = []
    size = messages = 0
    for line in lines:
        head.append(line if head else without_byte_order_mark(line, name))
        messages += head[-1].lstrip().startswith(b"msgid ")
        size += len(line)
        if size > _MAX_BYTES:
            raise CorpusError(f"{name}: the header is larger than {_MAX_BYTES >> 20} MiB")
        if messages > 1:
            break
    encoding = read_encoding(b"".join(head), name)
    return encoding, _decode_lines(chain(head, lines), encoding, name)


def _decode_lines(lines: Iterable[bytes], encoding: str, name: str) -> Iterator[str]:
    try:
        for line in lines:
            yield line.decode(encoding)
    except UnicodeError as error:
        raise CorpusError(f"{name}: the file is not {encoding}") from error


def read_encoding(header: bytes, name: str) -> str:
    """Return the encoding for the character set that a header names, or UTF-8 if it names none."""
    match = _CHARSET.search(header)
    if match is None or match[1] == b"CHARSET":  # a template's placeholder
        return "utf-8"
    charset = match[1].decode("latin-1")
    if encoding := find_encoding(charset):
        return encoding
    raise CorpusError(
        f"{name}: the header names the character set '{charset[:40]}', which is not supported; "
        "convert the file to UTF-8, e.g. with msgconv"
    )


# --- entries --------------------------------------------------------------------------------------


def is_header(texts: Texts) -> bool:
    """Return whether an entry is the file's header."""
    return not texts["msgid"] and "msgctxt" not in texts


def read_header(text: str) -> dict[str, str]:
    """Return a dict of a header's fields, keyed by lowercase name."""
    lines = (line.partition(":") for line in text.split("\n"))
    return {name.strip().lower(): value.strip() for name, _, value in lines}


def _pairs(
    texts: Texts, place: str, plural: PluralForms | None, is_swapped: bool
) -> Iterator[Unit]:
    try:
        pairs = [
            (one_line(text, "msgid"), one_line(form, "msgstr"))
            for text, form in _match_forms(texts, plural)
        ]
    except InvalidTextError as error:
        yield CorpusError(f"{place}: {error}")
        return
    for message, form in pairs:
        if form:
            yield (form, message) if is_swapped else (message, form)


def _match_forms(texts: Texts, plural: PluralForms | None) -> list[tuple[str, str]]:
    """Pair each message of an entry with the plural form that translates it."""
    if not texts.get("msgid_plural"):
        return [(texts["msgid"], texts.get("msgstr", ""))]
    forms = {int(key[7:-1]): text for key, text in texts.items() if key.startswith("msgstr[")}
    if not any(forms.values()):
        return []
    number, one, many, _ = plural or PluralForms(2, 0, 1)  # gettext's own default
    count = max(forms) + 1
    if count != number:
        says = f"for {number}" if plural else "that can be used"
        raise InvalidTextError(
            f"a plural with {count} forms, but the header has "
            f"{'' if plural else 'no '}Plural-Forms {says}"
        )
    matched = [(texts["msgid_plural"], forms.get(many, ""))]
    # A form used for all numbers does not translate 'one file'.
    return matched if one == many else [(texts["msgid"], forms.get(one, "")), *matched]


def language_code(language: str) -> str:
    """Return the base language code from a header's Language field, or '' if it has no code."""
    code = base_language(language)
    return code if len(code) <= 3 else ""  # a name, e.g. 'Portuguese'


def read_plural_forms(text: str) -> PluralForms | None:
    """Parse the header field Plural-Forms; return None if it is missing or unusable."""
    match = _PLURAL_FORMS.match(text)
    if match is None:
        return None
    count = int(match[1])
    try:
        # Like GNUTranslations. c2py bounds the expression's length and depth.
        one, *others = map(c2py(match[2].strip()), _NUMBERS)
    except (ValueError, ArithmeticError, SyntaxError):  # `n == !n` gives a SyntaxError
        return None
    if not all(0 <= form < count for form in (one, *others)):
        return None
    return PluralForms(count, one, Counter(others).most_common(1)[0][0], one in others)
