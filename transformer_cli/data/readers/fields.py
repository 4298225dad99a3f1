"""Pairs in two fields of JSON objects or of a Parquet file's rows."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer_cli.compression import is_compressed, open_text
from transformer_cli.data.readers.jsonl_records import read_jsonl
from transformer_cli.data.readers.parquet_records import check_text_fields, read_parquet
from transformer_cli.data.readers.records import (
    Numbered,
    field_names,
    get_field,
    no_such,
    type_name,
)
from transformer_cli.data.readers.units import InvalidTextError, Unit, UnitReader, one_line
from transformer_cli.errors import CorpusError


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


@dataclass(frozen=True)
class JsonlReader(FieldsReader):
    """JSON objects, one per line."""

    def records(self, file: Path) -> Numbered[dict[str, Any]]:
        """Yield the objects."""
        with open_text(file) as raw:
            yield from read_jsonl(raw, str(file))

    def place(self, file: Path, number: int) -> str:
        """Return the line."""
        return f"{file}:{number}"


@dataclass(frozen=True)
class ParquetReader(FieldsReader):
    """Rows of Parquet files."""

    def records(self, file: Path) -> Numbered[dict[str, Any]]:
        """Yield the rows, with the fields of the pair alone."""
        if is_compressed(file):
            raise CorpusError(f"{file}: Parquet has its own compression; decompress it first")
        check_text_fields(file, self.fields)
        return read_parquet(file, list(self.fields))

    def place(self, file: Path, number: int) -> str:
        """Return the row."""
        return f"{file}: row {number}"
