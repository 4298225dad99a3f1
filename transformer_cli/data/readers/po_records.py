"""Entries of gettext's PO files."""

import codecs
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from transformer_cli.data.corpus import bounded_lines, without_byte_order_mark
from transformer_cli.data.readers.units import MAX_SIDE_CHARACTERS
from transformer_cli.errors import CorpusError

_KEYWORD = re.compile(rb'(msgctxt|msgid_plural|msgid|msgstr)(?:\[(\d{1,3})\])?\s*(".*")')
_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9A-Fa-f]{1,2}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
# What these change is no character set: UTF-16 and UTF-7, escapes, names of domains.
_ASCII = (r"\u0041.xn--nxasmq6b", string.printable)
_MAX_ENTRY_BYTES = 8 * MAX_SIDE_CHARACTERS
_MAX_FORMS = 100


@dataclass(frozen=True)
class Entry:
    """A message and its translations."""

    place: str
    """File, and line or number, for messages."""
    message: str
    plural: str | None
    forms: list[str]
    """The translation, or those of the plural forms; '' where there is none."""

    @property
    def is_header(self) -> bool:
        """Whether this is the header, whose message is empty."""
        return not self.message


def read_po(file: BinaryIO, name: str) -> Iterator[Entry | CorpusError]:
    """Yield the header and the entries that are translated, and neither fuzzy nor obsolete.

    polib would hold the whole file.

    Args:
        file: as ``open_text`` opens it.
        name: the file's name, for messages.

    Raises:
        CorpusError: the file is damaged, has a line without end, or an unknown character set.
    """
    draft, encoding = _Draft(1), "utf-8"
    for number, raw in enumerate(bounded_lines(file, name), start=1):
        if number == 1:
            raw = without_byte_order_mark(raw, name)
        line = raw.strip()
        if draft.ends_before(line):
            encoding = draft.header_encoding(name) or encoding
            yield from draft.entries(name, encoding)
            draft = _Draft(number)
        draft.add(line)
    yield from draft.entries(name, draft.header_encoding(name) or encoding)


def header_field(header: str, key: str) -> str:
    """Return a field of a header's text, or an empty string."""
    for line in header.split("\n"):
        found, _, value = line.partition(":")
        if found.strip().lower() == key.lower():
            return value.strip()
    return ""


def header_encoding(header: bytes, name: str) -> str:
    """Return the character set that a header names.

    Raises:
        CorpusError: it is unknown.
    """
    content_type = header_field(header.decode("latin-1"), "Content-Type")
    found = re.search(r"charset=\s*([\w.:-]+)", content_type)
    if found is None or found[1] == "CHARSET":  # as a template has it
        return "utf-8"
    try:
        if all(text.encode("ascii").decode(found[1]) == text for text in _ASCII):
            return codecs.lookup(found[1]).name
    except (LookupError, ValueError):
        pass
    raise CorpusError(
        f"{name}: the header names the character set '{found[1][:40]}', which is unknown; convert "
        "the file to UTF-8, for example with msgconv"
    )


@dataclass
class _Draft:
    """The lines of an entry, as far as they are read."""

    line: int
    """Where it begins."""
    texts: dict[bytes, list[bytes]] = field(default_factory=dict)
    """Quoted strings by keyword, that of forms with the number behind it."""
    size: int = 0
    is_fuzzy: bool = False
    wrong: str | None = None
    _last: bytes | None = None

    def ends_before(self, line: bytes) -> bool:
        """Return whether a line belongs to the next entry."""
        if line.startswith((b"msgid_plural", b"msgstr", b'"')) or not line:
            return False
        return b"msgstr0" in self.texts or (b"msgid" in self.texts and not line.startswith(b"#"))

    def add(self, line: bytes) -> None:
        """Take the next line."""
        if line.startswith(b"#~"):
            self.is_fuzzy = False  # that was said of an obsolete entry
        elif line.startswith((b"#,", b"#=")):
            self.is_fuzzy |= b"fuzzy" in line
        elif match := _KEYWORD.fullmatch(line):
            keyword, number, text = match.groups()
            self._last = b"msgstr%d" % int(number or 0) if keyword == b"msgstr" else keyword
            if self._last in self.texts or len(self.texts) > _MAX_FORMS:
                self.wrong = self.wrong or f"a second {keyword.decode()} in an entry"
            self.texts[self._last] = []
            self._add_text(text)
        elif line.startswith(b'"') and len(line) > 1 and line.endswith(b'"') and self._last:
            self._add_text(line)
        elif line and not line.startswith(b"#"):
            self.wrong = self.wrong or "a line that is neither a keyword with a text nor a text"

    def _add_text(self, quoted: bytes) -> None:
        self.size += len(quoted)
        if self.size > _MAX_ENTRY_BYTES:
            self.wrong = f"an entry of more than {_MAX_ENTRY_BYTES >> 20} MiB"
        elif self._last is not None:
            self.texts[self._last].append(quoted[1:-1])

    def header_encoding(self, name: str) -> str | None:
        """Return the character set that the entry names if it is the header."""
        if any(self.texts.get(b"msgid", [b"-"])):
            return None
        header = b"".join(self.texts.get(b"msgstr0", []))
        return header_encoding(header.replace(rb"\n", b"\n"), name)

    def entries(self, name: str, encoding: str) -> Iterator[Entry | CorpusError]:
        """Yield the entry, unless it is none, or untranslated or fuzzy."""
        place = f"{name}:{self.line}"
        if self.wrong is not None:
            yield CorpusError(f"{place}: {self.wrong}")
        elif b"msgid" in self.texts and b"msgstr0" in self.texts:
            try:
                yield from self._decoded(place, encoding)
            except UnicodeError:
                yield CorpusError(f"{place}: the entry is not {encoding}")
        elif self.texts:
            yield CorpusError(f"{place}: an entry without msgid or without msgstr")

    def _decoded(self, place: str, encoding: str) -> Iterator[Entry]:
        texts = {key: _decode(b"".join(parts), encoding) for key, parts in self.texts.items()}
        last = max(int(key[6:]) for key in texts if key.startswith(b"msgstr"))
        forms = [texts.get(b"msgstr%d" % number, "") for number in range(last + 1)]
        entry = Entry(place, texts[b"msgid"], texts.get(b"msgid_plural"), forms)
        if entry.is_header or (any(forms) and not self.is_fuzzy):
            yield entry


def _decode(text: bytes, encoding: str) -> str:
    decoded = text.decode(encoding)
    return _ESCAPE.sub(_unescape, decoded) if "\\" in decoded else decoded


def _unescape(match: re.Match[str]) -> str:
    escape = match[1]
    if escape[0] == "x" and len(escape) > 1:
        return chr(int(escape[1:], 16))
    if escape[0] in "01234567":
        return chr(int(escape, 8))
    return _ESCAPED.get(escape, escape)
