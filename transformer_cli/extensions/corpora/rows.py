"""Translate the rows of a table as lines: TSV stays TSV, and JSONL stays JSONL.

The translation goes into a new column or field; the other columns or fields do not change.
"""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO
from uuid import uuid4

from transformer_cli.base.errors import CorpusError
from transformer_cli.cli.translate import TranslateOptions
from transformer_cli.cli.translation import Row, RowFormat
from transformer_cli.config.choices import DecodingErrors
from transformer_cli.extensions.corpora.tables import (
    NumberLiteral,
    TextColumn,
    check_no_commas,
    get_text,
    read_jsonl_table,
    read_tsv,
    too_few_columns,
)
from transformer_cli.extensions.corpora.units import ROW_ADVICE, InvalidTextError, one_line

TRANSLATION = "translation"  # the name of the new column or field
_NOT_IN_TSV = re.compile(r"[\t\r\n\ud800-\udfff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
# Random, so that no text has it. Marks numbers, which json would write differently.
_MARK = uuid4().hex
_MARKED = re.compile(f'"{_MARK}([^"]*)"')


def read_rows(
    where: TextColumn,
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
        records = read_jsonl_table(file, name, errors)
        yield from _json_rows(records, f"{name}:", str(where.key), is_json)


def _check_new(kind: str, names: Iterable[str], place: str) -> None:
    if TRANSLATION in names:
        raise CorpusError(f"{place}: already has a {kind} '{TRANSLATION}'; rename it")


@contextmanager
def _named(place: str) -> Iterator[None]:
    try:
        yield
    except InvalidTextError as error:
        raise CorpusError(f"{place}: {error}; {ROW_ADVICE}") from None


# --- TSV ------------------------------------------------------------------------------------------


def _tsv_rows(key: int | str, file: BinaryIO, name: str, errors: DecodingErrors) -> Iterator[Row]:
    table = read_tsv(file, name, [key], errors)
    (index,), header = table.indices, table.header
    if header is not None:
        _check_new("column", header, f"{name}:1")
        yield _tsv_row("", header, TRANSLATION)
    width = len(header or [])
    for number, row in table.rows:
        if isinstance(row, CorpusError):
            raise row
        place = f"{name}:{number}"
        check_no_commas(row, name, number)
        if row == [""] and index:
            raise CorpusError(f"{place}: is blank; remove the line, or fill in its columns")
        if index >= len(row):
            raise CorpusError(f"{too_few_columns(row, index, name, number)}; {ROW_ADVICE}")
        width = width or len(row)
        if len(row) > width:
            raise CorpusError(
                f"{place}: {len(row)} columns, but the first line has {width}; {ROW_ADVICE}"
            )
        with _named(place):
            text = one_line(row[index], f"column {index + 1}")
        # Pad the row to the width of the first line, so that translations share a column.
        yield _tsv_row(text, row + [""] * (width - len(row)))


def _tsv_row(text: str, columns: list[str], heading: str | None = None) -> Row:
    """Return a row with a last column added: ``heading`` if it is given, else the translation."""
    source = "\t".join(columns)
    return Row(text, source, lambda new: f"{source}\t{heading or _NOT_IN_TSV.sub(' ', new)}")


# --- JSON -----------------------------------------------------------------------------------------


def _json_rows(
    records: Iterator[tuple[int, dict[str, Any]]], start: str, field: str, is_json: bool
) -> Iterator[Row]:
    for number, record in records:
        with _named(f"{start}{number}"):
            text = get_text(record, field)
        holder = record  # the object with the text: the record, or one within it
        if field not in record:
            for key in field.split(".")[:-1]:
                holder = holder[key]
        _check_new("field", holder, f"{start}{number}")
        yield _json_row(text, record, holder, is_json)


def _json_row(text: str, record: dict[str, Any], holder: dict[str, Any], is_json: bool) -> Row:
    """Return a row that is written as JSON, with the translation in a new field of ``holder``."""

    def to_line(translation: str) -> str:
        holder[TRANSLATION] = json.loads(translation)["translations"] if is_json else translation
        return _to_json(record)

    return Row(text, _to_json(record), to_line)


def _to_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=_mark)
    # A lone surrogate, which JSON can hold but UTF-8 cannot, stays an escape.
    text = json.dumps(value, default=_mark) if _SURROGATE.search(text) else text
    return _MARKED.sub(r"\1", text)


def _mark(value: Any) -> str:
    """Return a number's digits as text that ``_to_json`` turns back into a number."""
    return f"{_MARK}{value.text}" if isinstance(value, NumberLiteral) else str(value)


# --- translate ------------------------------------------------------------------------------------


class TableFormat(RowFormat):
    """The format of tables, in which each row is translated as one line."""

    def __init__(self, where: TextColumn) -> None:
        self._where = where

    def read(
        self, given: TranslateOptions, source: BinaryIO, lines: Iterable[bytes]
    ) -> Iterator[Row]:
        is_json = bool(given.marked("scores"))
        return read_rows(self._where, source, given.input_name, given.errors, is_json)

    def fingerprint(self) -> dict[str, str]:
        return {"table": f"{self._where.format} {self._where.key!r}"}
