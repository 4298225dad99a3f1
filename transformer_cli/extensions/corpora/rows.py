"""Rows of a table, translated as lines: TSV stays TSV, JSONL and Parquet are written as JSONL.

The other columns are as they were, and the translation is in a new column or field.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from transformer_cli.base.errors import CorpusError
from transformer_cli.cli.translate import TranslateOptions
from transformer_cli.cli.translation import Row, RowFormat
from transformer_cli.config.choices import DecodingErrors
from transformer_cli.extensions.corpora.tables import (
    NumberLiteral,
    TableRecord,
    TextColumn,
    read_table,
)
from transformer_cli.extensions.corpora.units import ROW_ADVICE

TRANSLATION = "translation"
"""Name of the new column or field."""
_NOT_IN_TSV = re.compile(r"[\t\r\n\ud800-\udfff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
# Random, so that no text has it: json writes no number but as an int or a float does.
_MARK = uuid4().hex
_MARKED = re.compile(f'"{_MARK}([^"]*)"')


def read_rows(
    where: TextColumn,
    file: BinaryIO,
    name: str,
    errors: DecodingErrors = "strict",
    is_json: bool = False,
) -> Iterator[Row]:
    """Yield the rows of a table, and before them its header if there is one.

    Args:
        where: the table's format, and where in it the text is.
        file: the table, open; Parquet is read by its name.
        name: the file's name.
        errors: 'replace' writes U+FFFD for what is not UTF-8.
        is_json: whether translations are JSON, for rows that are JSON too.

    Raises:
        CorpusError: a row cannot be read, or there is a translation already.
        MissingExtraError: pyarrow, which reads Parquet, is not installed.
    """
    header, records = read_table(where, file, name, errors)
    if where.format == "tsv":
        if header is not None:
            _check_new("column", header, f"{name}:1")
            source = "\t".join(header)
            yield Row("", source, lambda _: f"{source}\t{TRANSLATION}")
        for _, text, columns in _pad(header, records):
            yield _tsv_row(text, columns)
        return
    for place, text, record in records:
        holder = record  # the object that has the text: the record, or one within it
        if where.key not in record:
            for key in str(where.key).split(".")[:-1]:
                holder = holder[key]
        _check_new("field", holder, place)
        yield _json_row(text, record, holder, is_json)


def _check_new(kind: str, names: Iterable[str], place: str) -> None:
    if TRANSLATION in names:
        raise CorpusError(f"{place}: has a {kind} '{TRANSLATION}' already; rename it")


# --- TSV ------------------------------------------------------------------------------------------


def _pad(header: list[str] | None, records: Iterator[TableRecord]) -> Iterator[TableRecord]:
    """Yield rows with as many columns as the first line, so that the new column is one."""
    width = None if header is None else len(header)
    for place, text, columns in records:
        width = width or len(columns)
        if len(columns) > width:
            raise CorpusError(
                f"{place}: {len(columns)} columns, but the first line has {width}; {ROW_ADVICE}"
            )
        yield TableRecord(place, text, columns + [""] * (width - len(columns)))


def _tsv_row(text: str, columns: list[str]) -> Row:
    source = "\t".join(columns)
    return Row(text, source, lambda translation: f"{source}\t{_NOT_IN_TSV.sub(' ', translation)}")


# --- JSON -----------------------------------------------------------------------------------------


def _json_row(text: str, record: dict[str, Any], holder: dict[str, Any], is_json: bool) -> Row:
    """Return a record that is written as JSON, with a new field in ``holder``."""

    def to_line(translation: str) -> str:
        new = json.loads(translation)["translations"] if is_json else translation
        holder[TRANSLATION] = new
        return _to_json(record)

    return Row(text, _to_json(record), to_line)


def _to_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=_mark)
    # Half of a surrogate pair, which JSON can hold and UTF-8 cannot, stays an escape.
    text = json.dumps(value, default=_mark) if _SURROGATE.search(text) else text
    return _MARKED.sub(r"\1", text)


def _mark(value: Any) -> str:
    """Return a number's digits as text that ``_to_json`` makes a number again."""
    return f"{_MARK}{value.text}" if isinstance(value, NumberLiteral) else str(value)


# --- translate ------------------------------------------------------------------------------------


class TableFormat(RowFormat):
    """Tables: their rows are translated as lines."""

    def __init__(self, where: TextColumn) -> None:
        self.has_lines = where.format != "parquet"
        self._where = where

    def read(
        self, given: TranslateOptions, source: BinaryIO, raw_lines: Iterable[bytes]
    ) -> Iterator[Row]:
        is_json = given.n_best_written is not None
        return read_rows(self._where, source, given.input_name, given.errors, is_json)

    def fingerprint(self) -> dict[str, str]:
        return {"table": f"{self._where.format} {self._where.key!r}"}

    def output_name(self, path: Path) -> str:
        """Return the name of a file's translation: Parquet is written as JSONL."""
        return path.with_suffix(".jsonl").name if self._where.format == "parquet" else path.name
