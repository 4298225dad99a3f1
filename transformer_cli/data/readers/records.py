"""Records of a table or of JSON: what the readers of TSV, JSONL and Parquet share."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from transformer_cli.config.choices import DecodingErrors
from transformer_cli.data.corpus import decode_line, without_byte_order_mark
from transformer_cli.errors import CorpusError, did_you_mean

T = TypeVar("T")
Numbered = Iterator[tuple[int, T | CorpusError]]
"""Records with the numbers of their lines or rows, from 1.

A record that cannot be read is the error that says why, so that reading may go on after it.
"""

MEND_ROW = "mend or remove the row"
"""What to do about a row of a table that cannot be used."""

_TYPES = {
    "NoneType": "null",
    "dict": "an object",
    "list": "a list",
    "bool": "true or false",
    "str": "a text",
}


def type_name(value: Any) -> str:
    """Return what a value of JSON is, in words."""
    return _TYPES.get(type(value).__name__, "a number")


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
        nested = isinstance(value, Mapping) and not prefix.count(".") > 8
        names += field_names(value, f"{prefix}{key}.") if nested else [f"{prefix}{key}"]
    return names


def no_such(what: str, name: str, found: Collection[str]) -> str:
    """Return the words for a column or field that is not there, with the ones that are."""
    if hint := did_you_mean(name, found):
        return f"no {what} '{name}'; {hint}"
    shown = ", ".join(f"'{each[:40]}'" for each in list(found)[:10])
    return f"no {what} '{name}'; there {'is' if len(found) == 1 else 'are'} {shown or 'none'}"
