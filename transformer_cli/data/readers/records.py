"""Records of a table or of JSON: what the readers of TSV, JSONL and Parquet share."""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from transformer_cli.config.choices import DecodingErrors
from transformer_cli.data.corpus import decode_line, without_byte_order_mark
from transformer_cli.data.readers.units import InvalidTextError, Unit, UnitReader, one_line
from transformer_cli.errors import CorpusError

T = TypeVar("T")
Numbered = Iterator[tuple[int, T | CorpusError]]
"""Records with the numbers of their lines or rows, from 1.

A record that cannot be read is the error that says why, so that reading may go on after it.
"""

ROW_ADVICE = "mend or remove the row"
"""What to do about a row of a table that cannot be used."""

_MAX_DEPTH = 9  # of fields within fields that are shown
_TYPES = {
    "NoneType": "null",
    "dict": "an object",
    "list": "a list",
    "bool": "true or false",
    "str": "a text",
}


@dataclass(frozen=True)
class FieldsReader(UnitReader):
    """Files in which a record is a pair."""

    fields: tuple[str, str]

    @abstractmethod
    def records(self, file: Path) -> Numbered[dict[str, Any]]:
        """Yield the records of a file."""

    @abstractmethod
    def place(self, file: Path, number: int) -> str:
        """Return where a record is, for messages."""

    def units(self, file: Path) -> Iterator[Unit]:
        """Yield the pair of each record."""
        src_field, tgt_field = self.fields
        for number, record in self.records(file):
            if isinstance(record, CorpusError):
                yield record
                continue
            try:
                yield get_text(record, src_field), get_text(record, tgt_field)
            except InvalidTextError as error:
                yield CorpusError(f"{self.place(file, number)}: {error}")


def get_text(record: dict[str, Any], field: str) -> str:
    """Return a field's text on one line.

    Raises:
        InvalidTextError: there is no such field, or no text in it that can be used.
    """
    try:
        text = get_field(record, field)
    except KeyError:
        raise InvalidTextError(no_such("field", field, field_names(record))) from None
    if not isinstance(text, str):
        raise InvalidTextError(f"field '{field}' is {type_name(text)}, not text")
    return one_line(text, f"field '{field}'")


def get_field(record: Mapping[str, Any], field: str) -> Any:
    """Return the value of a field, as in 'text', or of one within another, as in 'translation.de'.

    Raises:
        KeyError: the record has no such field.
    """
    if field in record:
        return record[field]
    value: Any = record
    for key in field.split("."):
        if not isinstance(value, Mapping):
            raise KeyError(field)
        value = value[key]
    return value


def field_names(record: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return the names of a record's fields that ``get_field`` takes and that hold no others."""
    names = []
    for key, value in record.items():
        is_nested = isinstance(value, Mapping) and prefix.count(".") < _MAX_DEPTH
        names += field_names(value, f"{prefix}{key}.") if is_nested else [f"{prefix}{key}"]
    return names


def type_name(value: Any) -> str:
    """Return what a value of JSON is, in words."""
    return _TYPES.get(type(value).__name__, "a number")


def no_such(what: str, name: str, known: Collection[str]) -> str:
    """Return the words for a column or field that is not there, with the ones that are."""
    close = get_close_matches(name, known, n=1)
    if close:
        return f"no {what} '{name}'; did you mean '{close[0]}'?"
    shown = ", ".join(f"'{other[:40]}'" for other in list(known)[:10])
    return f"no {what} '{name}'; there {'is' if len(known) == 1 else 'are'} {shown or 'none'}"


def numbered_lines(
    raw_lines: Iterable[bytes], name: str, errors: DecodingErrors = "strict"
) -> Numbered[str]:
    """Yield the decoded lines of a text file, as ``decode_lines`` cuts them.

    Args:
        raw_lines: as ``bounded_lines`` gives them.
        name: the file's name, for messages.
        errors: 'replace' writes U+FFFD for what is not UTF-8.

    Raises:
        CorpusError: the file is compressed.
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
