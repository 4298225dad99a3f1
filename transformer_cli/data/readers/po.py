"""Pairs in gettext's PO and MO files, which polib parses."""

import codecs
import re
import string
import struct
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from gettext import c2py
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from transformer_cli.compression import open_text
from transformer_cli.data.corpus import bounded_lines, without_byte_order_mark
from transformer_cli.data.readers.units import (
    InvalidTextError,
    OddFileError,
    Unit,
    UnitReader,
    comparable_code,
    one_line,
    primary_language,
)
from transformer_cli.errors import CorpusError
from transformer_cli.packages import import_extra

_MAGICS = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}  # of MO, and its byte order
# polib holds what it reads as objects, some 20 times its size: a PO file is given to it in parts.
_PART_BYTES = 1 << 20
_MAX_BYTES = 1 << 25  # of an entry, and of an MO file
# polib takes time by the square of a text's lines.
_MAX_TEXT_LINES = 2000
_CHARSET = re.compile(rb"Content-Type:[^\n]*?charset=\s*([\w.:-]+)", re.IGNORECASE)
# What these change is no character set: UTF-16 and UTF-7, escapes, names of domains.
_ASCII = (r"\u0041.xn--nxasmq6b", string.printable)
_ERROR_LINE = re.compile(r"\(line (\d+)\)(?:: (.*))?")
_PLURAL_FORMS = re.compile(r"nplurals\s*=\s*(\d{1,3})\s*;\s*plural\s*=([^;]*)")
_NUMBERS = range(1, 1001)
"""Of things: enough to find the form of most, as rules go by the last two digits."""
_NAMES = (
    "arabic ar basque eu belarusian be bengali bn bokmål nb bosnian bs bulgarian bg catalan ca "
    "chinese zh croatian hr czech cs danish da dutch nl english en esperanto eo estonian et "
    "finnish fi french fr galician gl georgian ka german de greek el gujarati gu hebrew he hindi "
    "hi hungarian hu icelandic is indonesian id irish ga italian it japanese ja kannada kn kazakh "
    "kk khmer km korean ko latvian lv lithuanian lt macedonian mk malay ms marathi mr norwegian no "
    "nynorsk nn persian fa polish pl portuguese pt punjabi pa romanian ro russian ru serbian sr "
    "slovak sk slovenian sl spanish es swedish sv tamil ta telugu te thai th turkish tr ukrainian "
    "uk urdu ur vietnamese vi welsh cy"
)
_CODES = dict(re.findall(r"(\w+) (\w+)", _NAMES))


class PluralForms(NamedTuple):
    """What a header says of the forms of a plural."""

    number: int
    one: int  # the form of one thing
    many: int  # that of most numbers of things


@dataclass(frozen=True)
class PoReader(UnitReader):
    """Messages and their translations; of a plural, the forms of one thing and of most numbers."""

    languages: tuple[str, str]

    def units(self, file: Path) -> Iterator[Unit]:
        """Yield the pairs of each translated entry that is neither fuzzy nor obsolete."""
        name = str(file)
        polib = import_extra("polib", "po", name)
        header: dict[str, str] | None = None
        with open_text(file) as raw:
            is_mo = raw.peek(4)[:4] in _MAGICS
            for entries in (_read_mo if is_mo else _read_po)(polib, raw, name):
                if header is None:
                    header = {key.lower(): value for key, value in entries.metadata.items()}
                    is_swapped = self._is_swapped(header.get("language", ""), name)
                    plural = read_plural_forms(header.get("plural-forms", ""))
                for number, entry in enumerate(entries, start=1):
                    if entry.obsolete or "fuzzy" in (getattr(entry, "flags", None) or ()):
                        continue
                    place = f"{name}: entry {number}" if is_mo else f"{name}:{entry.linenum}"
                    yield from _pairs(entry, place, plural, is_swapped)

    def nothing_found(self) -> str:
        """Return why there may be no pairs."""
        return "there are no translated entries in it"

    def _is_swapped(self, language: str, name: str) -> bool:
        """Return whether the messages are in the target language, given that of the header."""
        src, tgt = map(primary_language, self.languages)
        code = language_code(language)
        if code not in ("", src, tgt):
            raise OddFileError(
                f"{name}: the header says 'Language: {language[:40]}', which is neither the source "
                f"language '{src}' nor the target language '{tgt}'"
            )
        if src == tgt:  # pt-BR and pt-PT
            comparable = comparable_code(self.languages)
            return comparable(language) == comparable(self.languages[0])
        # Messages are in English, but in a few programs.
        return code == src if code else tgt == "en"


# --- files ----------------------------------------------------------------------------------------


def _read_po(polib: Any, raw: BinaryIO, name: str) -> Iterator[Any]:
    """Yield polib's entries of each part of a PO file; the first has the header."""
    encoding = ""
    with tempfile.TemporaryDirectory(prefix="transformer-cli-") as directory:
        # A file, as polib breaks the lines of a str at U+2028, too.
        copy = Path(directory) / "x.po"
        for first, part in _parts(raw, name):
            if not first:
                header = b"".join((b"\n" + part).split(b"\nmsgid ", 2)[:2])
                encoding = read_encoding(header, name)
            try:
                copy.write_bytes(part)
            except OSError as error:
                problem = f"cannot be copied to {directory} ({error.strerror})"
                raise CorpusError(f"{name}: {problem}") from error
            try:
                entries = polib.pofile(str(copy), encoding=encoding)
            except OSError as error:  # polib's error of syntax
                match = _ERROR_LINE.search(str(error))
                line, problem = match.groups() if match else (1, "")
                place = f"{name}:{first + int(line)}"
                raise OddFileError(f"{place}: {problem or 'no line of a PO file'}") from error
            except UnicodeError as error:
                raise OddFileError(f"{name}: the file is not {encoding}") from error
            for entry in entries:
                entry.linenum = first + (entry.linenum or 1)
            yield entries


def _parts(raw: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield what polib has to read, in parts of whole entries, and the lines before each."""
    part: list[bytes] = []
    size = first = text_lines = 0
    is_translated = False
    for number, line in enumerate(bounded_lines(raw, name)):
        line = line if number else without_byte_order_mark(line, name)
        start = line.lstrip()
        key = start.removeprefix(b"#~").lstrip()
        begins = is_translated and key.startswith((b"#,", b"#=", b"msgctxt", b"msgid"))
        is_translated = key.startswith(b"msgstr") or (is_translated and not begins)
        if begins and size > _PART_BYTES:
            yield first, b"".join(part)
            part, size, first = [], 0, number
        text_lines = text_lines + 1 if start[:1] == b'"' else 0
        if text_lines > _MAX_TEXT_LINES:
            problem = f"a text of more than {_MAX_TEXT_LINES:,} lines"
            raise CorpusError(f"{name}:{number + 1}: {problem}")
        size += len(line)
        if size > _MAX_BYTES:
            problem = f"an entry of more than {_MAX_BYTES >> 20} MiB"
            raise CorpusError(f"{name}:{number + 1}: {problem}")
        if start[:2] == b"#=":  # gettext 1.0 has flags there, too
            line = b"#," + start[2:]
        elif start[:1] == b"#" and start[:2] not in (b"#,", b"#~"):
            line = b"\n"  # a comment; polib refuses some
        part.append(line)
    yield first, b"".join(part)


def _read_mo(polib: Any, raw: BinaryIO, name: str) -> Iterator[Any]:
    """Yield polib's entries of an MO file, all together."""
    data = raw.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise CorpusError(f"{name}: an MO file of more than {_MAX_BYTES >> 20} MiB")
    encoding = read_encoding(_mo_header(data, name), name)
    try:
        yield polib.mofile(data, encoding=encoding)
    except OSError as error:
        raise OddFileError(f"{name}: an MO file of an unknown revision") from error
    except UnicodeError as error:
        raise OddFileError(f"{name}: the file is not {encoding}") from error


def _mo_header(data: bytes, name: str) -> bytes:
    """Return the header, once all strings are known to lie in the file."""
    order = _MAGICS[data[:4]]
    try:
        _, _, count, *tables = struct.unpack_from(f"{order}5I", data)
        # Length and offset of each string, by turns: of the messages, and of their translations.
        messages, forms = (
            struct.unpack_from(f"{order}{2 * count}I", data, table) for table in tables
        )
    except struct.error:
        raise CorpusError(f"{name}: damaged MO file (it ends too early)") from None
    lengths, offsets = messages[::2] + forms[::2], messages[1::2] + forms[1::2]
    # Strings do not overlap; else a small file might hold text without end.
    if sum(lengths) > 2 * len(data) or any(
        length + offset > len(data) for length, offset in zip(lengths, offsets, strict=True)
    ):
        raise CorpusError(f"{name}: damaged MO file (it ends too early)")
    if not count or messages[0]:
        return b""
    length, offset = forms[:2]
    return data[offset : offset + length]


def read_encoding(header: bytes, name: str) -> str:
    """Return the character set that a header names."""
    match = _CHARSET.search(header)
    if match is None or match[1] == b"CHARSET":  # as a template has it
        return "utf-8"
    charset = match[1].decode("latin-1")
    try:
        if all(text.encode("ascii").decode(charset) == text for text in _ASCII):
            return codecs.lookup(charset).name
    except (LookupError, ValueError):
        pass
    raise OddFileError(
        f"{name}: the header names the character set '{charset[:40]}', which is unknown; convert "
        "the file to UTF-8, for example with msgconv"
    )


# --- entries --------------------------------------------------------------------------------------


def _pairs(entry: Any, place: str, plural: PluralForms | None, is_swapped: bool) -> Iterator[Unit]:
    try:
        pairs = [
            (one_line(text, "msgid"), one_line(form, "msgstr"))
            for text, form in _match_forms(entry, plural)
        ]
    except InvalidTextError as error:
        yield CorpusError(f"{place}: {error}")
        return
    for message, form in pairs:
        if form:
            yield (form, message) if is_swapped else (message, form)


def _match_forms(entry: Any, plural: PluralForms | None) -> list[tuple[str, str]]:
    """Return each message of an entry with the form that translates it."""
    if not entry.msgid_plural:
        return [(entry.msgid, entry.msgstr)]
    forms = entry.msgstr_plural
    if not any(forms.values()):
        return []
    number, one, many = plural or PluralForms(2, 0, 1)  # gettext's own default
    count = max(forms) + 1
    if count != number:
        says = f"for {number}" if plural else "that can be used"
        raise InvalidTextError(
            f"a plural of {count} forms, where the header has "
            f"{'' if plural else 'no '}Plural-Forms {says}"
        )
    matched = [(entry.msgid_plural, forms.get(many, ""))]
    # A form for all numbers is no translation of 'one file'.
    return matched if one == many else [(entry.msgid, forms.get(one, "")), *matched]


def language_code(language: str) -> str:
    """Return the code of the language that a header names; nothing if it is not known."""
    code = primary_language(language)
    if len(code) > 3:  # as 'Portuguese' or 'Brazilian Portuguese (pt)'
        words = re.split(r"[(,;/]", language)[0].lower().split()
        code = _CODES.get(words[-1], "") if words else ""
    return code


def read_plural_forms(text: str) -> PluralForms | None:
    """Return what a header's Plural-Forms says; None: nothing that can be used."""
    match = _PLURAL_FORMS.match(text)
    if match is None:
        return None
    count = int(match[1])
    try:
        # As GNUTranslations reads it. It bounds the expression's length and depth.
        one, *others = map(c2py(match[2].strip()), _NUMBERS)
    except (ValueError, ArithmeticError, SyntaxError):  # the last of `n == !n`
        return None
    if not all(0 <= form < count for form in (one, *others)):
        return None
    return PluralForms(count, one, Counter(others).most_common(1)[0][0])
