"""Rows of a Parquet file."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from transformer_cli.compression import is_compressed
from transformer_cli.data.readers.records import ROW_ADVICE, FieldsReader, Numbered, no_such
from transformer_cli.errors import CorpusError
from transformer_cli.packages import import_extra

# Few, as a file of some kilobytes may hold the same long text in all its rows.
_BATCH_ROWS = 16
_TEXT_TYPES = ("string", "large_string", "string_view")
_BUFFER_BYTES = 1 << 16


@dataclass(frozen=True)
class ParquetReader(FieldsReader):
    """Pairs in two fields of the rows."""

    def records(self, file: Path) -> Numbered[dict[str, Any]]:
        """Yield the rows, with the fields of the pair alone."""
        if is_compressed(file):
            raise CorpusError(f"{file}: Parquet has its own compression; decompress it first")
        check_text_fields(file, self.fields)
        return read_parquet(file, list(self.fields))

    def place(self, file: Path, number: int) -> str:
        """Return the row."""
        return f"{file}: row {number}"


def read_parquet(path: Path, columns: list[str] | None = None) -> Numbered[dict[str, Any]]:
    """Yield the rows of a file, numbered from 1, a structure being a dict.

    Args:
        path: the file; a pipe will not do.
        columns: names of the columns to read, or of fields within them, as in 'translation.de';
            None: all.

    Raises:
        CorpusError: the file is missing or damaged.
        MissingExtraError: pyarrow is not installed.
    """
    number = 0
    with open_parquet(path) as file, _our_errors(path):
        for batch in file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
            for row in _rows(batch):
                number += 1
                if isinstance(row, UnicodeDecodeError):
                    yield number, CorpusError(f"{path}: row {number}: not UTF-8")
                else:
                    yield number, row


def read_parquet_table(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a file that are to be written as JSON; a float that JSON lacks is None.

    Raises:
        CorpusError: as ``read_parquet``; or a row cannot be read, or a column not be written.
        MissingExtraError: pyarrow is not installed.
    """
    with open_parquet(path) as file:
        _check_writable(file.schema_arrow, path)
    for number, row in read_parquet(path):
        if isinstance(row, CorpusError):
            raise CorpusError(f"{row}; {ROW_ADVICE}")
        yield number, _without_nan(row)


def _check_writable(fields: Iterable[Any], path: Path, prefix: str = "") -> None:
    """Raise an error if fields would be lost in JSON: two of one name, or bytes."""
    names: set[str] = set()
    for field in fields:
        name = f"{prefix}{field.name}"
        if name in names:
            raise CorpusError(f"{path}: has two columns '{name}'; rename one")
        names.add(name)
        if not field.type.num_fields and "binary" in _plain_type(field.type):
            raise CorpusError(
                f"{path}: column '{name}' is of type {field.type}, which JSON cannot hold; remove "
                "it, or make it text"
            )
        inner = (field.type.field(index) for index in range(field.type.num_fields))
        _check_writable(inner, path, f"{name}.")


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {name: _without_nan(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):  # tuples are entries of maps
        return [_without_nan(inner) for inner in value]
    return value


def check_text_fields(path: Path, fields: Iterable[str]) -> None:
    """Check that a file has fields of text; raise what ``read_parquet`` does."""
    with open_parquet(path) as file:
        types = _field_types(file.schema_arrow)
    for field in fields:
        if field not in types:
            raise CorpusError(f"{path}: {no_such('field', field, types)}")
        if types[field] not in _TEXT_TYPES:
            raise CorpusError(f"{path}: field '{field}' is of type {types[field]}, not text")


def _field_types(fields: Iterable[Any], prefix: str = "") -> dict[str, str]:
    """Return the types of all fields that hold no others, as in 'translation.de'."""
    types: dict[str, str] = {}
    for field in fields:
        name = prefix + field.name
        if isinstance(field.type, Iterable):
            types |= _field_types(field.type, f"{name}.")
        else:
            types[name] = _plain_type(field.type)
    return types


def _plain_type(kind: Any) -> str:
    """Return a type's name; of a dictionary, its values'."""
    return str(kind).removeprefix("dictionary<values=").partition(",")[0]


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """Open a file as pyarrow's ``ParquetFile``; raise what ``read_parquet`` does."""
    parquet = import_extra("pyarrow.parquet", "parquet", str(path))
    if not path.is_file():
        raise CorpusError(
            f"{path}: there is no such file, or it is none; Parquet is read from files"
        )
    with _our_errors(path):
        # Pages are read as they are needed, so that a row group need not fit into memory.
        file = parquet.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False)
    with file:
        yield file


@contextmanager
def _our_errors(path: Path) -> Iterator[None]:
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError, MemoryError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise CorpusError(f"{path}: cannot be read as Parquet ({reason})") from error


def _rows(batch: Any) -> Iterator[dict[str, Any] | UnicodeDecodeError]:
    try:
        yield from batch.to_pylist()
    except UnicodeDecodeError:
        for index in range(len(batch)):
            try:
                yield from batch.slice(index, 1).to_pylist()
            except UnicodeDecodeError as error:
                yield error
