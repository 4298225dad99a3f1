"""Tab-separated values, row by row."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from transformer_cli.compression import open_text
from transformer_cli.config.choices import DecodingErrors
from transformer_cli.data.corpus import bounded_lines
from transformer_cli.data.readers.units import (
    InvalidTextError,
    Numbered,
    Unit,
    UnitReader,
    no_such,
    numbered_lines,
    one_line,
)
from transformer_cli.errors import CorpusError


@dataclass(frozen=True)
class TsvReader(UnitReader):
    """Tables in which a line is a pair; blank lines are left out."""

    columns: tuple[int | str, int | str]

    def units(self, file: Path) -> Iterator[Unit]:
        """Yield the pair of each row."""
        name = str(file)
        with open_text(file) as raw:
            table = read_tsv(raw, name, self.columns)
            src, tgt = table.indices
            src_what, tgt_what = (f"column {column}" for column in self.columns)
            for number, row in table.rows:
                if isinstance(row, CorpusError):
                    yield row
                elif row != [""]:
                    try:
                        yield one_line(row[src], src_what), one_line(row[tgt], tgt_what)
                    except IndexError:
                        yield too_few_columns(row, max(src, tgt), name, number)
                    except InvalidTextError as error:
                        yield CorpusError(f"{name}:{number}: {error}")


@dataclass(frozen=True)
class TsvTable:
    """An open table. Quotes are text, as in Tatoeba's files: a tab always ends a field."""

    header: list[str] | None  # names of the columns; None: the first line is a row like the others
    indices: list[int]  # of the columns asked for, from 0. A row may have fewer
    rows: Numbered[list[str]]
    """All fields of each row, with line numbers; a blank line is a row of one empty field."""


def read_tsv(
    file: BinaryIO, name: str, columns: Sequence[int | str], errors: DecodingErrors = "strict"
) -> TsvTable:
    """Read a table, row by row.

    ``columns`` are numbers, from 1, or names; the first line is a header if there is a name.

    Raises:
        CorpusError: the header lacks a name, or has it twice; a number is not from 1 on. Reading
            the rows raises it too, if the file is damaged or has a line without end.
    """
    lines = numbered_lines(bounded_lines(file, name), name, errors)
    header = None
    if any(isinstance(column, str) for column in columns):
        _, line = next(lines, (1, CorpusError(f"{name}: is empty; its first line names columns")))
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
        raise CorpusError(f"{name}:1: the header has {no_such('column', column, header)}")
    if header.count(column) > 1:
        raise CorpusError(f"{name}:1: the header has two columns '{column}'; give their numbers")
    return header.index(column)


def too_few_columns(row: list[str], index: int, name: str, number: int) -> CorpusError:
    """Return the error of a row that ends before a column."""
    columns = f"{len(row)} column{'s' * (len(row) != 1)}"
    return CorpusError(f"{name}:{number}: {columns}; there is no column {index + 1}")
