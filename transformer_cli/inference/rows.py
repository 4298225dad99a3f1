"""Rows of a table, translated as lines: read as TSV, JSONL or Parquet, written as TSV or JSONL.

The other columns are as they were, and the translation is in a new column or field.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Literal, NamedTuple
from uuid import uuid4

from transformer_cli.config.choices import DecodingErrors
from transformer_cli.data.readers.fields import NumberLiteral
from transformer_cli.data.readers.units import ROW_ADVICE
from transformer_cli.data.tables import TableRecord, TextColumn, read_table
from transformer_cli.errors import CorpusError
from transformer_cli.inference.lines import Row

TRANSLATION = "translation"
"""Name of the new column or field."""
_NOT_IN_TSV = re.compile(r"[\t\r\n\ud800-\udfff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
# Random, so that no text has it: json writes no number but as an int or a float does.
_MARK = uuid4().hex
_MARKED = re.compile(f'"{_MARK}([^"]*)"')


class TsvRow(NamedTuple):
    """A row to be written as TSV."""

    text: str
    columns: list[str]
    is_header: bool = False
    """Whether it is the names of the columns, of which nothing is translated."""

    @property
    def source(self) -> str:
        """The columns."""
        return "\t".join(self.columns)

    def to_line(self, translation: str) -> str:
        """Return the columns and the new one."""
        new = TRANSLATION if self.is_header else _NOT_IN_TSV.sub(" ", translation)
        return "\t".join([*self.columns, new])


class JsonRow(NamedTuple):
    """A record to be written as JSON."""

    text: str
    record: dict[str, Any]
    place: dict[str, Any]
    """The object that has the text: the record, or one within it."""
    is_json: bool
    """Whether translations are JSON: of several, or with scores."""

    @property
    def source(self) -> str:
        """The record as JSON."""
        return _to_json(self.record)

    def to_line(self, translation: str) -> str:
        """Return the record as JSON, with a new field beside the text."""
        found = json.loads(translation)["translations"] if self.is_json else translation
        self.place[TRANSLATION] = found
        return _to_json(self.record)


def read_rows(
    where: TextColumn,
    file: BinaryIO,
    name: str,
    output: Literal["tsv", "jsonl"],
    errors: DecodingErrors = "strict",
    is_json: bool = False,
) -> Iterator[Row]:
    """Yield the rows of a table, and before them its header if there is one to write.

    Args:
        where: the table's format, and where in it the text is.
        file: the table, open; Parquet is read by its name.
        name: the file's name.
        output: the format that rows are written in.
        errors: 'replace' writes U+FFFD for what is not UTF-8.
        is_json: whether translations are JSON, for rows that are JSON too.

    Raises:
        CorpusError: a row cannot be read, or not written in the other format, or there is a
            translation already.
        MissingExtraError: pyarrow, which reads Parquet, is not installed.
    """
    header, records = read_table(where, file, name, errors)
    if output == "tsv":
        is_tsv = where.format == "tsv"
        yield from _even_rows(header, records, name) if is_tsv else _flat_rows(records)
        return
    if where.format == "tsv":
        records = _as_records(header, records, name)
    for place, text, record in records:
        holder = _holder(record, str(where.key))
        if TRANSLATION in holder:
            raise CorpusError(f"{place}: has a field '{TRANSLATION}' already; rename it")
        yield JsonRow(text, record, holder, is_json)


def _even_rows(
    header: list[str] | None, records: Iterator[TableRecord], name: str
) -> Iterator[TsvRow]:
    """Yield rows with as many columns as the first line, so that the new column is one."""
    if header is not None:
        _check_header(header, name)
        yield TsvRow("", header, is_header=True)
    width = None if header is None else len(header)
    for place, text, columns in records:
        width = width or len(columns)
        yield TsvRow(text, _padded(columns, width, place))


def _check_header(header: list[str], name: str) -> None:
    if TRANSLATION in header:
        raise CorpusError(f"{name}:1: has a column '{TRANSLATION}' already; rename it")


def _padded(columns: list[str], width: int, place: str) -> list[str]:
    if len(columns) > width:
        raise CorpusError(
            f"{place}: {len(columns)} columns, but the first line has {width}; {ROW_ADVICE}"
        )
    return columns + [""] * (width - len(columns))


def _flat_rows(records: Iterator[TableRecord]) -> Iterator[TsvRow]:
    """Yield records as rows of TSV, whose header is the fields of the first one."""
    names: list[str] | None = None
    for place, text, record in records:
        if names is None:
            names = list(record)
            if TRANSLATION in names:
                raise CorpusError(f"{place}: has a field '{TRANSLATION}' already; rename it")
            yield TsvRow("", [_to_column(name, place, name) for name in names], is_header=True)
        if record.keys() != set(names):
            raise CorpusError(f"{place}: its fields are not those of the first; write JSONL")
        yield TsvRow(text, [_to_column(record[field], place, field) for field in names])


def _to_column(value: Any, place: str, field: str) -> str:
    column = value if isinstance(value, str) else "" if value is None else _to_json(value)
    if _NOT_IN_TSV.search(column):
        raise CorpusError(f"{place}: field '{field}' has what TSV cannot hold; write JSONL")
    return column


def _as_records(
    header: list[str] | None, records: Iterator[TableRecord], name: str
) -> Iterator[TableRecord]:
    """Yield rows of TSV as dicts, by the header's names or else by the columns' numbers."""
    names = header
    if names is not None:
        _check_header(names, name)
        if len(set(names)) < len(names):
            raise CorpusError(f"{name}:1: two columns have the same name; write TSV")
    for place, text, columns in records:
        names = names or [str(number) for number in range(1, len(columns) + 1)]
        fields = dict(zip(names, _padded(columns, len(names), place), strict=True))
        yield TableRecord(place, text, fields)


def _holder(record: dict[str, Any], field: str) -> dict[str, Any]:
    """Return the object that has a field: the record, or one within it."""
    holder = record
    if field not in record:
        for key in field.split(".")[:-1]:
            holder = holder[key]
    return holder


def _to_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=_mark)
    # Half of a surrogate pair, which JSON can hold and UTF-8 cannot, stays an escape.
    text = json.dumps(value, default=_mark) if _SURROGATE.search(text) else text
    return _MARKED.sub(r"\1", text)


def _mark(value: Any) -> str:
    """Return a number's digits as text that ``_to_json`` makes a number again."""
    return f"{_MARK}{value.text}" if isinstance(value, NumberLiteral) else str(value)
