"""Translate the rows of a table as lines: TSV stays TSV, and JSONL stays JSONL.

The translation goes into a new column or field; the other columns or fields do not change.
"""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, NoReturn
from uuid import uuid4

from transformer_cli.base.errors import CorpusError
from transformer_cli.cli.translate import TranslateOptions
from transformer_cli.cli.translation import Row, RowFormat
from transformer_cli.config.choices import DecodingErrors
from transformer_cli.extensions.corpora import tables
from transformer_cli.extensions.corpora.units import InvalidTextError, one_line
from transformer_cli.text.lines import bounded_lines, decode_lines

TRANSLATION = "translation"  # the name of the new column or field
_NOT_IN_TSV = re.compile(r"[\t\r\n\ud800-\udfff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
# Random, so that no text has it. Marks numbers, which json would write differently.
_MARK = uuid4().hex
_MARKED = re.compile(f'"{_MARK}([^"]*)"')


def read_rows(
    where: tables.TextColumn,
    file: BinaryIO,
    name: str,
    errors: DecodingErrors = "strict",
    is_json: bool = False,
) -> Iterator[Row]:
    """Yield the header of a table if it has one, then its rows.

    If ``errors`` is 'replace', U+FFFD stands for bytes that are not UTF-8. For JSONL, ``is_json``
    says whether each translation is a JSON object with 'translations'. Raise CorpusError if a row
    cannot be read, or already has a translation.
    """
    if where.format == "tsv":
        yield from _tsv_rows(where.key, file, name, errors)
    else:
        lines = decode_lines(bounded_lines(file, name), name, errors)
        yield from _json_rows(str(where.key), lines, name, is_json)


def _check_new(kind: str, names: Iterable[str], place: str) -> None:
    if TRANSLATION in names:
        raise CorpusError(f"{place}: already has a {kind} '{TRANSLATION}'; rename it")


@contextmanager
def _named(place: str) -> Iterator[None]:
    try:
        yield
    except InvalidTextError as error:
        raise CorpusError(f"{place}: {error}; correct or remove the row") from None


# --- TSV ------------------------------------------------------------------------------------------


def _tsv_rows(key: int | str, file: BinaryIO, name: str, errors: DecodingErrors) -> Iterator[Row]:
    table = tables.read_tsv(file, name, [key], errors)
    (index,), header = table.indices, table.header
    if header is not None:
        _check_new("column", header, f"{name}:1")
        yield _tsv_row("", header, TRANSLATION)
    width = len(header or [])
    for number, row in table.rows:
        if isinstance(row, CorpusError):
            raise row
        place = f"{name}:{number}"
        tables.check_no_commas(row, name, number)
        if row == [""] and index:
            raise CorpusError(f"{place}: is blank; remove the line, or fill in its columns")
        width = width or len(row)
        with _named(place):
            tables.check_width(row, index)
            if len(row) > width:
                raise InvalidTextError(f"{len(row)} columns, but the first line has {width}")
            text = one_line(row[index], f"column {index + 1}")
        # Pad the row to the width of the first line, so that translations share a column.
        yield _tsv_row(text, row + [""] * (width - len(row)))


def _tsv_row(text: str, columns: list[str], heading: str | None = None) -> Row:
    """Return a row with a last column added: ``heading`` if it is given, else the translation."""
    source = "\t".join(columns)
    return Row(text, source, lambda new: f"{source}\t{heading or _NOT_IN_TSV.sub(' ', new)}")


# --- JSON -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _NumberLiteral:
    """A number as written in a file, e.g. '1.10', which a float or an int may not preserve."""

    text: str


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in fields if names.count(name) > 1)
        raise ValueError(f"an object has field '{twice}' twice")
    return fields


# Refuses JSON that could not be written back unchanged.
_DECODER = json.JSONDecoder(
    parse_float=_NumberLiteral,
    parse_int=_NumberLiteral,
    parse_constant=_refuse_constant,
    object_pairs_hook=_unique_fields,
)


def _json_rows(field: str, lines: Iterable[str], name: str, is_json: bool) -> Iterator[Row]:
    for number, line in enumerate(lines, start=1):
        place = f"{name}:{number}"
        if not line or line.isspace():
            raise CorpusError(f"{place}: is blank; remove the line, or make it an object")
        with _named(place):
            record = tables.parse_object(line, _DECODER)
            text = tables.get_text(record, field)
        holder = record  # the object with the text: the record, or one within it
        if field not in record:
            for key in field.split(".")[:-1]:
                holder = holder[key]
        _check_new("field", holder, place)
        yield Row(text, _to_json(record), partial(_add_translation, record, holder, is_json))


def _add_translation(
    record: dict[str, Any], holder: dict[str, Any], is_json: bool, translation: str
) -> str:
    holder[TRANSLATION] = json.loads(translation)["translations"] if is_json else translation
    return _to_json(record)


def _to_json(record: dict[str, Any]) -> str:
    text = json.dumps(record, ensure_ascii=False, default=_mark)
    # A lone surrogate, which JSON can hold but UTF-8 cannot, stays an escape.
    text = json.dumps(record, default=_mark) if _SURROGATE.search(text) else text
    return _MARKED.sub(r"\1", text)


def _mark(number: _NumberLiteral) -> str:
    """Return a number's digits as text that ``_to_json`` turns back into a number."""
    return _MARK + number.text


# --- translate ------------------------------------------------------------------------------------


class TableFormat(RowFormat):
    """The format of tables, in which each row is translated as one line."""

    def __init__(self, where: tables.TextColumn) -> None:
        self._where = where

    def read(
        self, given: TranslateOptions, source: BinaryIO, lines: Iterable[bytes]
    ) -> Iterator[Row]:
        is_json = bool(given.marked("scores"))
        return read_rows(self._where, source, given.input_name, given.errors, is_json)

    def fingerprint(self) -> dict[str, str]:
        return {"table": f"{self._where.format} {self._where.key!r}"}
