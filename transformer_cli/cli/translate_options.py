"""The options of ``transformer-cli translate`` as one dataclass."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from transformer_cli.cli import options
from transformer_cli.config.choices import (
    DecodingErrors,
    DeviceName,
    EngineName,
    SearchPrecisionName,
)
from transformer_cli.data.tables import TextColumn, find_text, format_of
from transformer_cli.errors import UsageError
from transformer_cli.files import is_stream
from transformer_cli.ranks import Ranks


@dataclass(frozen=True, kw_only=True)
class TranslateOptions:
    """Options of ``translate``; '-' is standard input or output."""

    run: Path
    input: Path
    output: Path
    src_column: str | None
    src_field: str | None
    checkpoint: str
    ensemble: list[Path]
    beam_size: int | None
    batch_tokens: int | None
    max_length: int | None
    length_penalty: float | None
    errors: DecodingErrors
    resume: bool
    n_best: int | None
    scores: bool
    prefix_file: Path | None
    alignments: Path | None
    replace_unk: bool
    sample: int | None
    tag: str | None
    engine: EngineName
    device: DeviceName
    precision: SearchPrecisionName
    threads: int | None

    @property
    def input_name(self) -> str:
        """Name of the input in messages."""
        return "standard input" if str(self.input) == "-" else str(self.input)

    @property
    def table(self) -> TextColumn | None:
        """Where the text is in a table; None: the input is text."""
        return find_text(self.input, self.src_column, self.src_field)

    @property
    def table_output(self) -> Literal["tsv", "jsonl"]:
        """Format that a table is written in: by the output's name, or else that of the input."""
        found = format_of(self.output) or (self.table and self.table.format)
        return "tsv" if found == "tsv" else "jsonl"

    @property
    def line_offset(self) -> int:
        """What to add to the number of a line of the output, for that of its line of the input."""
        if self.table is None:
            return 0
        is_tsv = self.table.format == "tsv"
        in_header = is_tsv and isinstance(self.table.key, str)
        out_header = self.table_output == "tsv" and (in_header or not is_tsv)
        return in_header - out_header

    @property
    def writes_stream(self) -> bool:
        """True if translations are written as they come."""
        return _is_stream(self.output)

    @property
    def are_files(self) -> bool:
        """True if all text can be read and written again."""
        read = [self.input, *([self.prefix_file] if self.prefix_file else [])]
        return not self.writes_stream and not any(map(_is_stream, read))

    def check(self, ranks: Ranks) -> None:
        """Make sure, before long work, that the options go together.

        Raises:
            UsageError: they do not.
        """
        n_best, beam_size = self.n_best, self.beam_size
        if n_best is not None and beam_size is not None and n_best > beam_size:
            raise UsageError(
                f"translate: a beam of {beam_size} does not hold the {n_best} best; "
                "raise --beam-size, or leave it out"
            )
        if self.sample is not None and max(n_best or 1, beam_size or 1) > 1:
            raise UsageError(
                "translate: --sample draws one translation of a line; leave out --beam-size and "
                "--n-best"
            )
        if self.table is not None:
            self._check_table()
        inputs = {"-i": self.input, "--prefix-file": self.prefix_file}
        if str(self.output) != "-":
            options.check_output(self.output, inputs=inputs)
        if self.alignments is not None:
            options.check_output(self.alignments, "--alignments", inputs)
            if str(self.alignments) == "-":
                raise UsageError("translate: --alignments needs the name of a file")
            if self.alignments.resolve() == self.output.resolve():
                raise UsageError(f"translate: -o and --alignments are both {self.output}")
            if self.resume:
                raise UsageError(
                    "translate: --resume does not go on with --alignments; leave one of them out"
                )
        if str(self.input) == "-" and str(self.prefix_file) == "-":
            raise UsageError("translate: -i and --prefix-file are both standard input; name a file")
        needs = "name them with -i and -o" + (" and --prefix-file" if self.prefix_file else "")
        if self.resume and not self.are_files:
            raise UsageError(f"translate: --resume needs files; {needs}")
        if ranks.size > 1 and not self.are_files:
            raise UsageError(f"translate: several processes need files; {needs}")

    def _check_table(self) -> None:
        if format_of(self.output) == "parquet":
            raise UsageError("translate: writes TSV and JSONL, not Parquet; rename -o")
        if self.table_output == "tsv" and (self.n_best is not None or self.scores):
            raise UsageError(
                "translate: --n-best and --scores write JSON, not TSV; give -o a name that "
                "ends with .jsonl"
            )


def _is_stream(path: Path) -> bool:
    return str(path) == "-" or is_stream(path)
