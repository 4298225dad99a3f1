"""Pairs in gettext's PO and MO files."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from transformer_cli.compression import open_text
from transformer_cli.data.readers.mo_records import MAGICS, read_mo
from transformer_cli.data.readers.po_records import Entry, header_field, read_po
from transformer_cli.data.readers.units import (
    BadSideError,
    Unit,
    UnitReader,
    one_line,
    primary_language,
)
from transformer_cli.errors import CorpusError


@dataclass(frozen=True)
class PoReader(UnitReader):
    """Messages and their translations; each form of a plural is a pair."""

    languages: tuple[str, str]

    def units(self, file: Path) -> Iterator[Unit]:
        """Yield the pairs of each translated entry that is neither fuzzy nor obsolete."""
        name = str(file)
        is_swapped = self._is_swapped("", name)
        with open_text(file) as raw:
            is_mo = raw.peek(4)[:4] in MAGICS  # type: ignore[attr-defined]
            entries = read_mo(raw, name) if is_mo else read_po(raw, name)
            for entry in entries:
                if isinstance(entry, CorpusError):
                    yield entry
                elif entry.is_header:
                    is_swapped = self._is_swapped(header_field(entry.forms[0], "Language"), name)
                else:
                    yield from _pairs(entry, is_swapped)

    def nothing_found(self) -> str:
        """Return why there may be no pairs."""
        return "there are no translated entries in it"

    def _is_swapped(self, code: str, name: str) -> bool:
        """Return whether the messages are in the target language.

        Args:
            code: language of the translations, as the header names it; '' if it does not.
            name: the file's name.
        """
        src, tgt = map(primary_language, self.languages)
        language = primary_language(code)
        if language not in ("", src, tgt):
            raise CorpusError(
                f"{name}: the header says 'Language: {code[:40]}', which is neither the source "
                f"language '{src}' nor the target language '{tgt}'"
            )
        # Messages are in English, but in a few programs.
        return language == src if language else tgt == "en"


def _pairs(entry: Entry, is_swapped: bool) -> Iterator[Unit]:
    for number, form in enumerate(entry.forms):
        message = entry.plural if number and entry.plural is not None else entry.message
        try:
            pair = one_line(message, "msgid"), one_line(form, "msgstr")
        except BadSideError as error:
            yield CorpusError(f"{entry.place}: {error}")
            continue
        if form:
            yield (pair[1], pair[0]) if is_swapped else pair
