"""Tables: tab-separated values, JSON objects (one per line) and Parquet, read row by row.

Translation reads one column or field as text; training reads two as pairs.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import NoneType
from typing import Any, BinaryIO, NamedTuple, TypeVar

from transformer_cli.base.errors import CorpusError, UsageError
from transformer_cli.base.locations import is_local, is_url, locate
from transformer_cli.base.packages import import_extra
from transformer_cli.base.text_files import is_compressed, open_text
from transformer_cli.config.choices import DecodingErrors
from transformer_cli.extensions.corpora.options import TableFormat, format_of
from transformer_cli.extensions.corpora.units import (
    InvalidTextError,
    Unit,
    UnitReader,
    no_such,
    one_line,
)
from transformer_cli.inference.plain_text import ending_of
from transformer_cli.text.lines import bounded_lines, decode_line, without_byte_order_mark

T = TypeVar("T")
Numbered = Iterator[tuple[int, T | CorpusError]]
"""Line or row numbers (from 1), each with its record, or an error if that cannot be read."""
SEPARATED_BY_TABS = "columns are separated by tabs, so save it as TSV"
_BATCH_ROWS = 16  # few, as a file of some kilobytes may repeat the same long text in all its rows
_TEXT_TYPES = ("string", "large_string", "string_view")
_BUFFER_BYTES = 1 << 16
_MAX_DEPTH = 9  # of nested fields that are shown
_TYPES = {NoneType: "null", dict: "an object", list: "a list", bool: "true or false", str: "a text"}


class TextColumn(NamedTuple):
    """The column or field of a table that has the text to translate."""

    format: TableFormat
    key: int | str  # the column's number (from 1) or name, or the field's name


def find_text(path: Path, column: str | None, field: str | None) -> TextColumn:
    """Return which column or field has the text, from the two options and the file's name.

    Raise UsageError if the options do not fit the name, or if one is missing.
    """
    table = format_of(path)
    if ending_of(path) == ".parquet":
        raise UsageError(f"{path}: Parquet can only be read as a corpus; save it as JSONL")
    match table, column, field:
        case _, str(), str():
            problem = "--src-column is for TSV, --src-field for JSONL; leave one out"
        case "jsonl", str(), None:
            problem = f"--src-column: is for TSV; {path} needs --src-field NAME"
        case "tsv", None, str():
            problem = f"--src-field: is for JSONL; {path} needs --src-column"
        case _, str(), None:
            return TextColumn("tsv", int(column) if re.fullmatch("[0-9]{1,9}", column) else column)
        case _, None, str():
            return TextColumn(table or "jsonl", field)
        case _:
            option = "--src-column N|NAME" if table == "tsv" else "--src-field NAME"
            problem = f"{path}: is a table; name the column or field with its text by {option}"
    raise UsageError(problem)


def numbered_lines(file: BinaryIO, name: str, errors: DecodingErrors = "strict") -> Numbered[str]:
    """Yield a text file's decoded lines, numbered from 1; raise CorpusError if it is compressed."""
    for number, raw in enumerate(bounded_lines(file, name), start=1):
        if number == 1:
            raw = without_byte_order_mark(raw, name)
            if not raw:
                return
        try:
            yield number, decode_line(raw, name, number, errors)
        except CorpusError as error:
            yield number, error


# --- pairs of fields ------------------------------------------------------------------------------


@dataclass(frozen=True)
class FieldsReader(UnitReader):
    """A reader of JSONL or Parquet files; two fields of each record are a pair."""

    fields: tuple[str, str]
    is_parquet: bool

    def units(self, file: Path) -> Iterator[Unit]:
        src_field, tgt_field = self.fields
        for number, record in self._records(file):
            if isinstance(record, CorpusError):
                yield record
                continue
            try:
                yield get_text(record, src_field), get_text(record, tgt_field)
            except InvalidTextError as error:
                yield CorpusError(f"{file}:{' row ' * self.is_parquet}{number}: {error}")

    def _records(self, file: Path) -> Numbered[dict[str, Any]]:
        if not self.is_parquet:
            with open_text(file) as raw:
                yield from read_jsonl(raw, str(file))
            return
        if is_compressed(file) or not (is_local(file) or is_url(file)):
            raise CorpusError(f"{file}: Parquet has its own compression; decompress the file first")
        with open_parquet(file) as parquet:
            fields = dict(_field_types(parquet.schema_arrow))
        types = {name: kind for name, kind in fields.items() if not kind.startswith("struct<")}
        for field in self.fields:
            if field not in types:
                raise CorpusError(f"{file}: {no_such('field', field, types)}")
            if types[field] not in _TEXT_TYPES:
                raise CorpusError(f"{file}: field '{field}' has type {types[field]}, not text")
        yield from read_parquet(file, list(self.fields))


def get_text(record: dict[str, Any], field: str) -> str:
    """Return a field's text on one line; raise InvalidTextError if it has no usable text."""
    try:
        text = get_field(record, field)
    except KeyError:
        raise InvalidTextError(no_such("field", field, field_names(record))) from None
    if not isinstance(text, str):
        raise InvalidTextError(f"field '{field}' is {type_name(text)}, not text")
    return one_line(text, f"field '{field}'")


def get_field(record: Mapping[str, Any], field: str) -> Any:
    """Return the value of a field, which may be nested ('a.b'); raise KeyError if it is missing."""
    if field in record:
        return record[field]
    value: Any = record
    for key in field.split("."):
        if not isinstance(value, Mapping):
            raise KeyError(field)
        value = value[key]
    return value


def field_names(record: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return the names, as ``get_field`` takes them, of all fields that hold no other fields."""
    names = []
    for key, value in record.items():
        is_nested = isinstance(value, Mapping) and prefix.count(".") < _MAX_DEPTH
        names += field_names(value, f"{prefix}{key}.") if is_nested else [f"{prefix}{key}"]
    return names


def type_name(value: Any) -> str:
    """Return the type of a JSON value, in words."""
    return _TYPES.get(type(value), "a number")


# --- JSONL ----------------------------------------------------------------------------------------


def read_jsonl(file: BinaryIO, name: str) -> Numbered[dict[str, Any]]:
    """Yield a file's objects with their line numbers; skip blank lines."""
    for number, line in numbered_lines(file, name):
        if isinstance(line, CorpusError):
            yield number, line
        elif line and not line.isspace():
            try:
                yield number, parse_object(line, _DECODER)
            except InvalidTextError as error:
                yield number, CorpusError(f"{name}:{number}: {error}")


_DECODER = json.JSONDecoder()


def parse_object(line: str, decoder: json.JSONDecoder) -> dict[str, Any]:
    """Return a line's JSON object; raise InvalidTextError if there is none or it is unusable."""
    try:
        value = decoder.decode(line)
    except json.JSONDecodeError as error:
        raise InvalidTextError(f"invalid JSON at column {error.colno} ({error.msg})") from None
    except (ValueError, RecursionError) as error:  # e.g. a number with too many digits
        reason = str(error).partition(": value")[0]
        raise InvalidTextError(f"JSON that cannot be used: {reason}") from None
    if not isinstance(value, dict):
        raise InvalidTextError(f"not a JSON object, but {type_name(value)}")
    return value


# --- Parquet --------------------------------------------------------------------------------------


def read_parquet(path: Path, columns: list[str] | None = None) -> Numbered[dict[str, Any]]:
    """Yield the rows of a file, numbered from 1, with structures as dicts.

    ``columns`` may name fields within columns, e.g. 'translation.de'; None: all columns. Raise
    CorpusError if the file is missing or damaged, and MissingExtraError if pyarrow is missing.
    """
    with open_parquet(path) as file:
        batches = file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False)
        for number, row in enumerate(chain.from_iterable(map(_rows, batches)), start=1):
            yield number, CorpusError(f"{path}: row {number}: not UTF-8") if row is None else row


def _rows(batch: Any) -> Iterator[dict[str, Any] | None]:
    """Yield the rows of a batch, or None for a row whose text is not UTF-8."""
    try:
        yield from batch.to_pylist()
    except UnicodeDecodeError:
        for index in range(len(batch)):
            try:
                yield from batch.slice(index, 1).to_pylist()
            except UnicodeDecodeError:
                yield None


def _field_types(fields: Iterable[Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the names of all fields, e.g. 'translation.de', and their types.

    The type of a dictionary-encoded field is the type of its values.
    """
    for field in fields:
        name, kind = prefix + field.name, field.type
        yield name, str(kind).removeprefix("dictionary<values=").partition(",")[0]
        inner = (kind.field(index) for index in range(kind.num_fields))
        yield from _field_types(inner, f"{name}.")


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """Open a file as pyarrow's ``ParquetFile``; raise the same errors as ``read_parquet``."""
    parquet = import_extra("pyarrow.parquet", "parquet", str(path))
    from pyarrow import ArrowException

    if not is_url(path) and not path.is_file():
        raise CorpusError(f"{path}: there is no such file; Parquet can only be read from files")
    try:
        # Pages are read when needed, so that a row group need not fit into memory.
        options = {"buffer_size": _BUFFER_BYTES, "pre_buffer": False}
        with (
            locate(path).open(path) if is_url(path) else nullcontext(path) as source,
            parquet.ParquetFile(source, **options) as file,
        ):
            yield file
    except (ArrowException, OSError, MemoryError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise CorpusError(f"{path}: cannot be read as Parquet ({reason})") from error


# --- TSV ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TsvReader(UnitReader):
    """A reader of TSV files in which each line has a pair in two columns; it skips blank lines."""

    columns: tuple[int | str, int | str]

    def units(self, file: Path) -> Iterator[Unit]:
        src_what, tgt_what = (f"column {column}" for column in self.columns)
        with open_text(file) as raw:
            table = read_tsv(raw, str(file), self.columns)
            src, tgt = table.indices
            for number, row in table.rows:
                if isinstance(row, CorpusError):
                    yield row
                elif len(row) > 1 or row[0].strip():
                    try:
                        check_width(row, max(src, tgt))
                        yield one_line(row[src], src_what), one_line(row[tgt], tgt_what)
                    except InvalidTextError as error:
                        yield CorpusError(f"{file}:{number}: {error}")


@dataclass(frozen=True)
class TsvTable:
    """An open table. Only tabs separate fields: quotes are ordinary text, as in Tatoeba's files."""

    header: list[str] | None  # names of the columns; None: the first line is an ordinary row
    indices: list[int]  # the requested columns, from 0; a row may have fewer columns
    rows: Numbered[list[str]]  # all fields; a blank line is a row with one empty field


def read_tsv(
    file: BinaryIO, name: str, columns: Sequence[int | str], errors: DecodingErrors = "strict"
) -> TsvTable:
    """Read a table, row by row.

    ``columns`` are numbers from 1, or names; if one is a name, the first line is a header. Raise
    CorpusError if the header lacks a name or has it twice, or if a number is below 1; reading the
    rows also raises it if the file is damaged or a line is too long.
    """
    lines = numbered_lines(file, name, errors)
    header = None
    if any(isinstance(column, str) for column in columns):
        _, line = next(lines, (1, CorpusError(f"{name}: is empty, but needs a header line")))
        if isinstance(line, CorpusError):
            raise line
        header = line.split("\t")
    indices = [_index(column, header or [], name) for column in columns]
    rows = (
        (number, line if isinstance(line, CorpusError) else line.split("\t"))
        for number, line in lines
    )
    return TsvTable(header, indices, rows)


def _index(column: int | str, header: list[str], name: str) -> int:
    if isinstance(column, int):
        if column < 1:
            raise CorpusError(f"{name}: no column {column}; columns are numbered from 1")
        return column - 1
    if column not in header:
        check_no_commas(header, name, 1)
        raise CorpusError(f"{name}:1: the header has {no_such('column', column, header)}")
    if header.count(column) > 1:
        raise CorpusError(f"{name}:1: the header has two columns '{column}'; give their numbers")
    return header.index(column)


def tabs_hint(row: list[str]) -> str:
    """Return advice if commas or semicolons seem to separate a row's columns, else ''."""
    has_commas = len(row) == 1 and any(sign in row[0] for sign in ",;")
    return f"; {SEPARATED_BY_TABS}" if has_commas else ""


def check_no_commas(row: list[str], name: str, number: int) -> None:
    """Raise CorpusError if ``tabs_hint`` has advice on the row and the file is a .csv file."""
    if (hint := tabs_hint(row)) and ending_of(Path(name)) == ".csv":
        raise CorpusError(f"{name}:{number}: has no tab{hint}")


def check_width(row: list[str], index: int) -> None:
    """Raise InvalidTextError if a row has no column ``index`` (from 0)."""
    if index >= len(row):
        if hint := tabs_hint(row):
            raise InvalidTextError(f"has no tab{hint}")
        columns = f"{len(row)} column{'s' * (len(row) != 1)}"
        raise InvalidTextError(f"{columns}; there is no column {index + 1}")
