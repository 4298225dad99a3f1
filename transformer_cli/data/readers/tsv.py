"""Pairs in two columns of tab-separated values."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from transformer_cli.compression import open_text
from transformer_cli.data.readers.tsv_records import read_tsv, too_few_columns
from transformer_cli.data.readers.units import InvalidTextError, Unit, UnitReader, one_line
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
