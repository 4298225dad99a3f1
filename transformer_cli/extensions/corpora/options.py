"""Options for translating tables: ``translate`` reads one column or field as text."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from transformer_cli.base.errors import UsageError
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import option
from transformer_cli.cli.translate import InputOptions, TranslateOptions
from transformer_cli.extensions.corpora.manifest import TABLES

with lazy_imports():
    from transformer_cli.extensions.corpora import rows, tables
    from transformer_cli.inference import plain_text

if TYPE_CHECKING:
    from transformer_cli.cli.translation import InputFormat

TableFormat = Literal["tsv", "jsonl"]
_FORMATS: dict[str, TableFormat] = {".tsv": "tsv", ".jsonl": "jsonl"}


def format_of(path: Path) -> TableFormat | None:
    """Return the table format of a file extension, ignoring .gz and the like; None for others."""
    return _FORMATS.get(plain_text.ending_of(path))


@dataclass(frozen=True)
class TableOptions(InputOptions):
    """The options that say which column or field of a table to translate."""

    heading = "Documents and tables"
    order = 2
    src_column: Annotated[
        str | None,
        option("N|NAME", "TSV: column with the text, by number or header.", marks=("lines",)),
    ] = None
    src_field: Annotated[
        str | None,
        option("NAME", "JSONL: field with the text, e.g. translation.de.", marks=("lines",)),
    ] = None

    def matches(self, given: TranslateOptions) -> bool:
        is_named = format_of(given.input_) is not None
        return is_named or self.src_column is not None or self.src_field is not None

    def find_text(self, given: TranslateOptions) -> "tables.TextColumn":
        """Return the column or field to translate; raise UsageError if that is unclear."""
        return tables.find_text(given.input_, self.src_column, self.src_field)

    def check(self, given: TranslateOptions) -> None:
        written = plain_text.ending_of(given.output)
        if given.kind is self:
            self.check_one(given)
            own = self.find_text(given).format
            if written in TABLES and written != f".{own}":
                problem = f"rows of {given.input_} are written as {own.upper()}"
                raise UsageError(f"translate: -o: {problem}; give a name that ends with .{own}")
        elif written in TABLES and not given.marked(written):
            raise UsageError(f"translate: -o {given.output}: plain text is not a table; rename -o")

    def check_one(self, given: TranslateOptions) -> None:
        as_json = given.marked(".jsonl") if given.kind is self else []
        if as_json and self.find_text(given).format == "tsv":
            problem = f"{as_json[0][0]} writes JSON, which TSV cannot hold"
            raise UsageError(f"translate: {given.input_}: {problem}; save it as JSONL")

    def open(self, given: TranslateOptions) -> "InputFormat":
        return rows.TableFormat(self.find_text(given))
