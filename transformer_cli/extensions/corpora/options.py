"""Options for tables: `translate` and `evaluate` read one column or field of them as text."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from transformer_cli.base.errors import UsageError
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import ExtraOptions, option
from transformer_cli.cli.translate_options import InputOptions, TranslateOptions
from transformer_cli.extensions.corpora.manifest import TABLES

with lazy_imports():
    from transformer_cli.data import corpus
    from transformer_cli.extensions.corpora import rows, tables
    from transformer_cli.inference import plain_text

if TYPE_CHECKING:
    from transformer_cli.cli.translation import InputFormat

TableFormat = Literal["tsv", "jsonl", "parquet"]
_FORMATS: dict[str, Any] = {ending: ending.removeprefix(".") for ending in TABLES}


def format_of(path: Path) -> TableFormat | None:
    """Return the format that a name's ending says, compressed or not; None: no table."""
    found: TableFormat | None = _FORMATS.get(plain_text.ending_of(path))
    return found


SourceColumn = Annotated[
    str | None, option("N|NAME", "TSV: column of the text, from 1, or its header.")
]
SourceField = Annotated[
    str | None, option("NAME", "JSONL, Parquet: field of the text, as in translation.de.")
]


@dataclass(frozen=True)
class TableOptions(InputOptions):
    """Where the text to translate is in a table."""

    heading = "Documents and tables"
    order = 2
    src_column: SourceColumn = None
    src_field: SourceField = None

    def matches(self, given: TranslateOptions) -> bool:
        is_named = format_of(given.input_) is not None
        return is_named or self.src_column is not None or self.src_field is not None

    def declares_encoding(self, given: TranslateOptions) -> bool:
        return self.find_text(given).format == "parquet"

    def find_text(self, given: TranslateOptions) -> "tables.TextColumn":
        """Return where the text is in the input; UsageError: nothing says so."""
        found = tables.find_text(given.input_, self.src_column, self.src_field)
        assert found is not None
        return found

    def find_output(self, given: TranslateOptions) -> Literal["tsv", "jsonl"]:
        """Return the format to write: by the output's name, or else that of the input."""
        name = format_of(given.output) or self.find_text(given).format
        return "tsv" if name == "tsv" else "jsonl"

    def find_offset(self, given: TranslateOptions) -> int:
        """Return what to add to the number of a line of the output, for that of the input's."""
        where = self.find_text(given)
        is_tsv = where.format == "tsv"
        in_header = is_tsv and isinstance(where.key, str)
        return in_header - (self.find_output(given) == "tsv" and (in_header or not is_tsv))

    def check(self, given: TranslateOptions) -> None:
        for problem in self._find_problems(given):
            raise UsageError(f"translate: {problem}")

    def _find_problems(self, given: TranslateOptions) -> Iterator[str]:
        is_table = given.kind is self
        written = format_of(given.output)
        if written == "parquet":
            yield "writes text, TSV and JSONL, not Parquet; rename -o"
        if written and not is_table and (written == "tsv" or given.n_best_written is None):
            yield f"-o {given.output}: lines of text are no table; rename -o"
        if not is_table:
            return
        if given.prefix_file is not None and self.find_offset(given):
            yield "--prefix-file: only one of the tables has a header; give -o the format of -i"
        if self.find_output(given) == "tsv" and given.n_best_written is not None:
            yield "--n-best and --scores write JSON, not TSV; give -o a name that ends with .jsonl"

    def check_one(self, given: TranslateOptions) -> None:
        if given.kind is not self or given.n_best_written is None:
            return
        if self.find_output(given) == "tsv":
            raise UsageError(
                f"{given.input_}: --n-best and --scores write JSON, which TSV cannot hold; save it "
                "as JSONL"
            )

    def fingerprint(self) -> dict[str, str]:
        own = {"src_column": self.src_column, "src_field": self.src_field}
        return {name: value for name, value in own.items() if value is not None}

    def open(self, given: TranslateOptions) -> "InputFormat":
        return rows.TableFormat(
            self.find_text(given), self.find_output(given), self.find_offset(given)
        )


@dataclass(frozen=True)
class ScoredTableOptions(ExtraOptions):
    """Where the sources and the references to score are in tables."""

    heading = "Tables"
    src_column: SourceColumn = None
    src_field: SourceField = None
    ref_column: Annotated[str | None, option("N|NAME", "TSV: column of the references.")] = None
    ref_field: Annotated[str | None, option("NAME", "JSONL, Parquet: field of the references.")] = (
        None
    )

    def check(self, given: Any) -> None:
        if given.output is not None and format_of(given.output) is not None:
            raise UsageError(
                f"evaluate: -o {given.output}: lines are written, not a table; give another "
                "name, or use translate"
            )
        for side, path in (("src", given.src), ("ref", given.ref)):
            for kind in ("column", "field"):
                if path is None and getattr(self, f"{side}_{kind}") is not None:
                    raise UsageError(f"evaluate: --{side}-{kind} needs a file; add --{side}")

    def read_pairs(self, given: Any) -> "corpus.ParallelText | None":
        src = tables.find_text(given.src, self.src_column, self.src_field, "src")
        ref = tables.find_text(given.ref, self.ref_column, self.ref_field, "ref")
        if src is None and ref is None:
            return None
        for path, column in ((given.src, src), (given.ref, ref)):
            if column is None:
                plain_text.check_is_text(path, "lines of text or a table (.tsv, .jsonl, .parquet)")
        return tables.read_parallel_tables((given.src, src), (given.ref, ref), given.encoding)
