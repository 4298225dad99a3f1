"""Tables with text to translate or to score: TSV, JSONL and Parquet, a row at a time."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from transformer_cli.compression import is_compressed, open_text
from transformer_cli.config.choices import DecodingErrors
from transformer_cli.data.corpus import ParallelText, stream_lines
from transformer_cli.data.readers.fields import (
    TsvTable,
    get_text,
    read_jsonl_table,
    read_parquet_table,
    read_tsv,
    too_few_columns,
)
from transformer_cli.data.readers.units import ROW_ADVICE, InvalidTextError, one_line
from transformer_cli.errors import CorpusError, UsageError
from transformer_cli.objects import text_path

TableFormat = Literal["tsv", "jsonl", "parquet"]
_FORMATS: dict[str, TableFormat] = {".tsv": "tsv", ".jsonl": "jsonl", ".parquet": "parquet"}
_TRANSLATORS_FILES = frozenset(
    (".po", ".pot", ".mo", ".gmo", ".tmx", ".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff")
)
_NO_LINES = re.compile(
    r"\.(adoc|ass|csv|dita|docx?|epub|ftl|idml|ini|ipynb|json|od[pst]|pdf|php|pptx?|properties"
    r"|resx|rst|rtf|sbv|ssa|strings|sub|svg|tex|toml|ttml|xlsx?|xml|ya?ml)",
    re.IGNORECASE,
)
"""Endings of files whose lines are no sentences.

Not .arb, which is also Standard Arabic's code, nor .zip, whose own error names what is in it.
"""


class TableRecord(NamedTuple):
    """A row of a table."""

    place: str
    text: str
    value: Any
    """A list of columns, or a dict of fields."""


class TextColumn(NamedTuple):
    """The column or field of a table that has the text."""

    format: TableFormat
    key: int | str
    """Number of a column, from 1, or its name; or name of a field."""


def find_text(
    path: Path, column: str | None, field: str | None, side: str = "src"
) -> TextColumn | None:
    """Return where a file's text is, by two options and the file's name; None: in its lines.

    ``side`` is the beginning of the options' names.

    Raises:
        UsageError: the options do not fit the name, or one is missing; or lines are no sentences.
    """
    if _ending(path).lower() in _TRANSLATORS_FILES:
        raise UsageError(
            f"{path}: a translators' file, whose markup would be taken for text; save its "
            "sentences one a line, or as TSV or JSONL (to train on TMX, PO or MO, name it in "
            "data.sources)"
        )
    table = format_of(path)
    column_option, field_option = f"--{side}-column", f"--{side}-field"
    match table, column, field:
        case _, str(), str():
            problem = (
                f"{column_option} is for TSV, {field_option} for JSONL and Parquet; leave one out"
            )
        case "jsonl" | "parquet", str(), None:
            problem = f"{column_option}: is for TSV; {path} needs {field_option} NAME"
        case "tsv", None, str():
            problem = f"{field_option}: is for JSONL and Parquet; {path} needs {column_option}"
        case "tsv", None, None:
            problem = f"{path}: is a table; say where its text is with {column_option} N|NAME"
        case str(), None, None:
            problem = f"{path}: is a table; say where its text is with {field_option} NAME"
        case _, str(), None:
            return TextColumn("tsv", int(column) if re.fullmatch("[0-9]{1,9}", column) else column)
        case _, None, str():
            return TextColumn(table or "jsonl", field)
        case _ if _NO_LINES.fullmatch(_ending(path)):
            problem = (
                f"{path}: its lines are no sentences; what is read are lines of text, tables "
                "(.tsv, .jsonl, .parquet) and documents (.po, .xlf, .tmx, .html, .md, .srt, .vtt): "
                "save it as one of them"
            )
        case _:
            return None
    raise UsageError(problem)


def format_of(path: Path) -> TableFormat | None:
    """Return the format that a name's ending says, compressed or not; None: no table."""
    return _FORMATS.get(_ending(path))


def _ending(path: Path) -> str:
    return (path.with_suffix("") if is_compressed(path) else path).suffix


def read_parallel_tables(
    src: tuple[Path, TextColumn | None], tgt: tuple[Path, TextColumn | None]
) -> ParallelText:
    """Read two sides, each of them a table's texts or, where no column is given, a file's lines.

    Raises what ``read_table`` does, and CorpusError if there are no texts, or not as many on both.
    """
    text = ParallelText(_read_texts(*src), _read_texts(*tgt))
    if len(text.src) != len(text.tgt):
        raise CorpusError(
            f"{src[0]} has {len(text.src)} texts but {tgt[0]} has {len(text.tgt)}; text n of one "
            "must translate text n of the other"
        )
    if not len(text):
        raise CorpusError(f"{src[0]}: has no texts; give a table with at least one row")
    return text


def _read_texts(path: Path, where: TextColumn | None) -> list[str]:
    if where is None:
        return list(stream_lines(path, once=True))
    with open_text(path, once=True) as file:
        return [record.text for record in read_table(where, file, str(path), "strict")[1]]


def read_table(
    where: TextColumn, file: BinaryIO, name: str, errors: DecodingErrors
) -> tuple[list[str] | None, Iterator[TableRecord]]:
    """Return the names of a table's columns, if it is TSV with a header, and its rows.

    Parquet is read by its name. ``errors`` 'replace' writes U+FFFD for what is not UTF-8.

    Raises:
        CorpusError: the table or, while it is read, one of its rows cannot be read.
        MissingExtraError: pyarrow, which reads Parquet, is not installed.
    """
    match where.format:
        case "tsv":
            table = read_tsv(file, name, [where.key], errors)
            return table.header, _tsv_records(table, name)
        case "jsonl":
            lines = read_jsonl_table(file, name, errors)
            return None, _json_records(lines, f"{name}:", str(where.key))
        case "parquet":
            rows = read_parquet_table(text_path(name))
            return None, _json_records(rows, f"{name}: row ", str(where.key))


def _tsv_records(table: TsvTable, name: str) -> Iterator[TableRecord]:
    (index,) = table.indices
    for number, row in table.rows:
        if isinstance(row, CorpusError):
            raise row
        place = f"{name}:{number}"
        if len(row) == 1 and _ending(Path(name)).lower() == ".csv":
            raise CorpusError(f"{place}: has no tab; columns are separated by tabs: save it as TSV")
        if row == [""] and index:
            raise CorpusError(f"{place}: is blank; remove the line, or fill in its columns")
        if index >= len(row):
            raise CorpusError(f"{too_few_columns(row, index, name, number)}; {ROW_ADVICE}")
        with _named(place):
            yield TableRecord(place, one_line(row[index], f"column {index + 1}"), row)


def _json_records(
    records: Iterator[tuple[int, dict[str, Any]]], start: str, field: str
) -> Iterator[TableRecord]:
    for number, record in records:
        place = f"{start}{number}"
        with _named(place):
            yield TableRecord(place, get_text(record, field), record)


@contextmanager
def _named(place: str) -> Iterator[None]:
    try:
        yield
    except InvalidTextError as error:
        raise CorpusError(f"{place}: {error}; {ROW_ADVICE}") from None
