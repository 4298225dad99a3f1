"""Pairs in gettext's PO and MO files."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from gettext import c2py
from pathlib import Path
from typing import NamedTuple

from transformer_cli.compression import open_text
from transformer_cli.data.readers.mo_records import MAGICS, read_mo
from transformer_cli.data.readers.po_records import Entry, header_field, read_po
from transformer_cli.data.readers.units import (
    InvalidTextError,
    Unit,
    UnitReader,
    one_line,
    primary_language,
)
from transformer_cli.errors import CorpusError

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


class _PluralForms(NamedTuple):
    """What a header says of the forms of a plural."""

    number: int
    one: int
    """The form of one thing."""
    many: int
    """That of most numbers of things."""


@dataclass(frozen=True)
class PoReader(UnitReader):
    """Messages and their translations; of a plural, the forms of one thing and of most numbers."""

    languages: tuple[str, str]

    def units(self, file: Path) -> Iterator[Unit]:
        """Yield the pairs of each translated entry that is neither fuzzy nor obsolete."""
        name = str(file)
        is_swapped, plural = self._is_swapped("", name), None
        with open_text(file) as raw:
            is_mo = raw.peek(4)[:4] in MAGICS  # type: ignore[attr-defined]
            entries = read_mo(raw, name) if is_mo else read_po(raw, name)
            for entry in entries:
                if isinstance(entry, CorpusError):
                    yield entry
                elif entry.is_header:
                    is_swapped = self._is_swapped(header_field(entry.forms[0], "Language"), name)
                    plural = _read_plural_forms(header_field(entry.forms[0], "Plural-Forms"))
                else:
                    yield from _pairs(entry, plural, is_swapped)

    def nothing_found(self) -> str:
        """Return why there may be no pairs."""
        return "there are no translated entries in it"

    def _is_swapped(self, language: str, name: str) -> bool:
        """Return whether the messages are in the target language.

        Args:
            language: of the translations, as the header has it; '' if it has none.
            name: the file's name.
        """
        src, tgt = map(primary_language, self.languages)
        code = _language_code(language)
        if code not in ("", src, tgt):
            raise CorpusError(
                f"{name}: the header says 'Language: {language[:40]}', which is neither the source "
                f"language '{src}' nor the target language '{tgt}'"
            )
        # Messages are in English, but in a few programs.
        return code == src if code else tgt == "en"


def _language_code(language: str) -> str:
    """Return the code of 'pt_BR', 'Portuguese' or 'Brazilian Portuguese (pt)'; '' if unknown."""
    code = primary_language(language)
    if len(code) <= 3:
        return code
    words = re.split(r"[(,;/]", language)[0].lower().split()
    return _CODES.get(words[-1], "") if words else ""


def _pairs(entry: Entry, plural: _PluralForms | None, is_swapped: bool) -> Iterator[Unit]:
    try:
        matched = _match_forms(entry, plural)
        pairs = [(one_line(text, "msgid"), one_line(form, "msgstr")) for text, form in matched]
    except InvalidTextError as error:
        yield CorpusError(f"{entry.place}: {error}")
        return
    for message, form in pairs:
        if form:
            yield (form, message) if is_swapped else (message, form)


def _match_forms(entry: Entry, plural: _PluralForms | None) -> list[tuple[str, str]]:
    """Return each message of an entry with the form that translates it.

    Raises:
        InvalidTextError: nothing tells which form that is.
    """
    if entry.plural is None:
        return [(entry.message, entry.forms[0])]
    number, one, many = plural or _PluralForms(2, 0, 1)  # gettext's own default
    if len(entry.forms) != number:
        says = f"for {number}" if plural else "that can be used"
        raise InvalidTextError(
            f"a plural of {len(entry.forms)} forms, where the header has "
            f"{'' if plural else 'no '}Plural-Forms {says}"
        )
    matched = [(entry.plural, entry.forms[many])]
    # A form for all numbers is no translation of 'one file'.
    return matched if one == many else [(entry.message, entry.forms[one]), *matched]


def _read_plural_forms(text: str) -> _PluralForms | None:
    """Return what a header's Plural-Forms says; None: nothing that can be used."""
    found = _PLURAL_FORMS.match(text)
    if found is None:
        return None
    count = int(found[1])
    try:
        # As GNUTranslations reads it. It bounds the expression's length and depth.
        one, *others = map(c2py(found[2].strip()), _NUMBERS)
    except (ValueError, ArithmeticError, SyntaxError):  # the last of `n == !n`
        return None
    if not all(0 <= form < count for form in (one, *others)):
        return None
    return _PluralForms(count, one, Counter(others).most_common(1)[0][0])
