"""``transformer-cli translate``: its options, and which of them go together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from transformer_cli.base.errors import UsageError
from transformer_cli.base.packages import import_extra, lazy_imports
from transformer_cli.base.ranks import Ranks
from transformer_cli.cli import options
from transformer_cli.cli.declaring import CommandOptions, declared_by, flag, option
from transformer_cli.config.choices import HIGHEST_PENALTY, DecodingErrors, EngineName

with lazy_imports():
    from transformer_cli.base import files, locations
    from transformer_cli.cli import translation
    from transformer_cli.extensions.corpora import tables
    from transformer_cli.extensions.documents import command as documents, document, many_files
    from transformer_cli.inference import loading, output_directory
    from transformer_cli.runs import directory as run_directories

_STREAM = Path("-")


@dataclass(frozen=True)
class FileOptions(CommandOptions):
    """What is translated, and where it goes; '-' is standard input or output."""

    heading = "Input and output"
    run: options.Run
    input_: Annotated[
        Path,
        option(
            "FILE|DIR",
            "Text, one sentence a line; tables; or documents.",
            "--input",
            "-i",
            parser=options.read_path,
        ),
    ] = _STREAM
    output: Annotated[
        Path,
        option(
            "FILE|DIR", "Translations, line by line.", "--output", "-o", parser=options.read_path
        ),
    ] = _STREAM
    errors: Annotated[DecodingErrors, option(None, "What is not UTF-8: an error, or U+FFFD.")] = (
        "strict"
    )
    encoding: options.Encoding = None
    prefix_file: Annotated[Path | None, option("FILE", "Forced target prefixes, one a line.")] = (
        None
    )
    alignments: Annotated[Path | None, option("FILE", "Write word alignments, as in 0-0 1-2.")] = (
        None
    )
    scores: Annotated[bool, flag("Write its score too, as JSON.", "--scores")] = False


@dataclass(frozen=True)
class DecodingOptions(CommandOptions):
    """How the model searches."""

    heading = "Search"
    checkpoint: options.Checkpoint = "best"
    ensemble: options.Ensemble = None
    beam_size: options.BeamSize = None
    batch_tokens: Annotated[
        int | None, option("N", "Source tokens a batch, times beam.  [default: the run's]", min=1)
    ] = None
    max_length: Annotated[
        int | None, option("N", "Most tokens of a translation.  [default: by its source]", min=1)
    ] = None
    length_penalty: Annotated[
        float | None,
        option("A", "Higher favours length.  [default: the run's]", min=0.0, max=HIGHEST_PENALTY),
    ] = None
    n_best: Annotated[
        int | None, option("N", "Write the N best with scores, as JSON; widens the beam.", min=1)
    ] = None
    sample: Annotated[int | None, option("SEED", "Sample tokens, with this seed.", min=0)] = None
    replace_unk: Annotated[bool, flag("Copy source words for unknown ones.", "--replace-unk")] = (
        False
    )
    fallback: Annotated[
        Literal["source"] | None, option(None, "What is written for a doubtful translation.")
    ] = None


@dataclass(frozen=True)
class DocumentOptions(CommandOptions):
    """How documents and tables are read."""

    heading = "Documents"
    src_column: options.SourceColumn = None
    src_field: options.SourceField = None
    report: Annotated[
        Path | None, option("FILE", "Write a page of all translations, by doubt.")
    ] = None
    no_fuzzy: Annotated[bool, flag("PO: do not mark what is filled as fuzzy.", "--no-fuzzy")] = (
        False
    )


@dataclass(frozen=True)
class TermOptions(CommandOptions):
    """What translations keep to."""

    heading = "Terms and memory"
    memory: Annotated[
        list[Path] | None,
        option("FILE", "Translation memory: TMX, PO or TSV; repeatable."),
    ] = None


@dataclass(frozen=True)
class TranslateOptions(
    options.HardwareOptions, TermOptions, DocumentOptions, DecodingOptions, FileOptions
):
    """What ``translate`` is given."""

    heading = "Hardware"
    engine: Annotated[
        EngineName, option(None, "auto is CTranslate2 where its text is torch's.")
    ] = "auto"

    @property
    def are_many(self) -> bool:
        """True if ``input_`` is a directory, or a pattern of names: each file is translated."""
        has_wildcards = any(sign in str(self.input_) for sign in "*?")
        if locations.is_url(self.input_):
            return has_wildcards
        return self.input_.is_dir() or (has_wildcards and not self.input_.exists())

    def of_file(self, path: Path) -> "TranslateOptions":
        """Return the options for one of many files."""
        output = self.output / output_directory.output_name(path)
        return replace(self, input_=path, output=output)

    @property
    def compute(self) -> "loading.ComputeOptions":
        """How to search."""
        return loading.ComputeOptions(
            self.engine, self.device, self.precision, self.threads, self.beam_size
        )

    @property
    def input_name(self) -> str:
        """Name of the input in messages."""
        return "standard input" if str(self.input_) == "-" else str(self.input_)

    @property
    def document(self) -> "document.DocumentFormat | None":
        """Format of the input, if it is a document, whose segments are translated.

        Text is one if a memory or a page of all its lines is asked for.
        """
        found = document.format_of(self.input_)
        if found or not (self.memory or self.report) or tables.format_of(self.input_):
            return found
        is_text = self.reads_file and tables.find_text(self.input_, None, None) is None
        return "lines" if is_text else None

    @property
    def declares_encoding(self) -> bool:
        """True if the format of the input settles its encoding."""
        is_parquet = self.table is not None and self.table.format == "parquet"
        return is_parquet or self.document in ("po", "xliff", "tmx")

    @property
    def table(self) -> "tables.TextColumn | None":
        """Where the text is in a table; None: the input is text."""
        if self.document is not None:
            return None
        return tables.find_text(self.input_, self.src_column, self.src_field)

    @property
    def table_output(self) -> Literal["tsv", "jsonl"]:
        """Format that a table is written in: by the output's name, or else that of the input."""
        name = tables.format_of(self.output) or (self.table and self.table.format)
        return "tsv" if name == "tsv" else "jsonl"

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
    def reads_file(self) -> bool:
        """True if all lines are there already."""
        return not _is_stream(self.input_)

    @property
    def are_files(self) -> bool:
        """True if all text can be read and written again."""
        paths = [self.input_, self.output, *([self.prefix_file] if self.prefix_file else [])]
        return not any(map(_is_stream, paths))

    @property
    def _further_outputs(self) -> dict[str, Path]:
        """Files that are written beside the translations, by their options."""
        paths = {"--alignments": self.alignments, "--report": self.report}
        return {name: path for name, path in paths.items() if path is not None}

    @property
    def _models(self) -> list[Path]:
        return [self.run, *(self.ensemble or ())]

    @property
    def writes_scored_tsv(self) -> bool:
        """True if JSON would have to go into a column of TSV."""
        is_tsv = self.table is not None and self.table_output == "tsv"
        return is_tsv and self.n_best_written is not None

    @property
    def n_best_written(self) -> int | None:
        """Number of translations a line that are written with scores; None: one without."""
        return self.n_best or (1 if self.scores else None)

    def check(self, ranks: Ranks) -> None:
        """Make sure, before long work, that the options go together."""
        self.check_extras()
        for problem in self._find_problems(ranks):
            raise UsageError(f"translate: {problem}")
        inputs = [
            ("-i", self.input_),
            ("--prefix-file", self.prefix_file),
            *self.extra_inputs(),
            *(("--memory", path) for path in self.memory or ()),
        ]
        if str(self.output) != "-":
            # A document is held in memory: its translation may take its place.
            others = inputs[1:] if self.document else inputs
            options.check_output(self.output, "-o", others, self._models)
        for name, path in self._further_outputs.items():
            options.check_output(path, name, inputs, self._models)
        if self.report is not None:
            import_extra("jinja2", "report", "--report")

    def check_many(self, ranks: Ranks, inputs: Sequence[Path]) -> None:
        """Make sure, before long work, that the options go with these files."""
        for problem in self._find_problems_of_many(ranks):
            raise UsageError(f"translate: {problem}")
        self.check_extras()
        run_directories.check_outside_runs(self.output / "file", "-o", self._models)
        output_directory.check_directory(self.output, inputs)
        for path in inputs:
            file = self.of_file(path)
            try:
                _ = file.table
            except UsageError as error:
                kind = next((p.suffix for p in inputs if document.format_of(p)), ".txt")
                others = f"; or leave it out by a pattern, such as -i '{path.parent}/*{kind}'"
                raise UsageError(f"{error}{others if len(inputs) > 1 else ''}") from None
            for problem in file._find_problems_of_document() if file.document else ():
                raise UsageError(f"translate: {path}: {problem}")
            if file.memory and file.document is None:
                raise UsageError(f"translate: {path}: --memory is not for tables; leave it out")
            if file.writes_scored_tsv:
                raise UsageError(
                    f"{path}: --n-best and --scores write JSON, which TSV cannot hold; save it as "
                    "JSONL"
                )

    def _find_problems(self, ranks: Ranks) -> Iterator[str]:
        yield from self._find_problems_of_search()
        if self.document is not None:
            yield from self._find_problems_of_document()
            if str(self.output) == "-":
                yield "documents, --memory and --report need a file for output; name it with -o"
            elif (document.format_of(self.output) or "lines") != self.document:
                yield f"-o: a document stays in its format; give a name that ends as {self.input_}"
            if ranks.size > 1:
                yield "torchrun's processes share lines, not documents; start one process"
        elif self.memory or self.report:
            name = "--memory" if self.memory else "--report"
            yield f"{name} is for files of text and documents, not tables and pipes; leave it out"
        elif document.format_of(self.output) is not None:
            advice = "give one of its format with -i, or rename -o"
            yield f"-o {self.output}: a document is made of a document only; {advice}"
        if (written := tables.format_of(self.output)) == "parquet":
            yield "writes text, TSV and JSONL, not Parquet; rename -o"
        if written and self.table is None and (written == "tsv" or self.n_best_written is None):
            yield f"-o {self.output}: lines of text are no table; rename -o"
        if self.prefix_file is not None and self.line_offset:
            yield "--prefix-file: only one of the tables has a header; give -o the format of -i"
        if self.writes_scored_tsv:
            yield "--n-best and --scores write JSON, not TSV; give -o a name that ends with .jsonl"
        for name, path in self._further_outputs.items():
            if str(path) != "-" and path.resolve() == self.output.resolve():
                yield f"-o and {name} are both {self.output}"
        if str(self.input_) == str(self.prefix_file) == "-":
            yield "-i and --prefix-file are both standard input; name a file"
        if ranks.size > 1 and not self.are_files:
            names = "-i and -o" + (" and --prefix-file" if self.prefix_file else "")
            yield f"several processes need files; name them with {names}"

    def _find_problems_of_document(self) -> Iterator[str]:
        for_lines = {
            "--n-best": self.n_best is not None,
            "--scores": self.scores,
            "--prefix-file": self.prefix_file is not None,
            "--alignments": self.alignments is not None,
            "--errors": self.errors != "strict",
            "--src-column": self.src_column is not None,
            "--src-field": self.src_field is not None,
        }
        for name in (name for name, is_given in for_lines.items() if is_given):
            yield f"{name} is for lines and tables, but -i names a document; leave it out"

    def _find_problems_of_many(self, ranks: Ranks) -> Iterator[str]:
        yield from self._find_problems_of_search()
        of_one = "is for one file, but -i names many; leave it out"
        if self.prefix_file is not None:
            yield f"--prefix-file {of_one}"
        if self.alignments is not None:
            yield f"--alignments {of_one}"
        if self.report is not None:
            yield f"--report {of_one}"
        if ranks.size > 1:
            yield "torchrun's processes share one file; give many files to --cluster"

    def _find_problems_of_search(self) -> Iterator[str]:
        n_best, beam_size = self.n_best, self.beam_size
        if n_best is not None and beam_size is not None and n_best > beam_size:
            yield (
                f"a beam of {beam_size} does not hold the {n_best} best; raise --beam-size, or "
                "leave it out"
            )
        if self.encoding is not None and self.errors != "strict":
            yield "--errors: is for text in UTF-8; leave out --encoding or --errors"
        if self.encoding is not None and self.declares_encoding:
            yield "--encoding: such files say theirs, or have to be UTF-8; leave it out"
        if self.no_fuzzy and self.document != "po" and not self.are_many:
            yield "--no-fuzzy is for PO files; leave it out"
        if self.fallback is not None and self.n_best_written is not None:
            yield "--n-best and --scores write what the model says; leave out --fallback"
        if self.sample is not None and max(n_best or 1, beam_size or 1) > 1:
            yield "--sample draws one translation of a line; leave out --beam-size and --n-best"


def _is_stream(path: Path) -> bool:
    return str(path) == "-" or files.is_stream(path)


@declared_by(TranslateOptions, "translate")
def translate(given: TranslateOptions) -> None:
    """Translate text, one sentence a line; line N in is line N out.

    Reads standard input and writes standard output unless told otherwise (- means these too).
    FILE.partial has the translations until FILE is complete; run the same command again to resume.
    Of DIR or a 'pattern*', each file is translated into DIR; --cluster gives each worker a file
    (split -l cuts). A document (.po, .xlf, .tmx, .html, .md, .srt, .vtt) keeps its format and any
    translations it has.
    A doubtful translation (repetitive, far too long or short) is searched again, with a wider beam.

    \b
    Example:
      transformer-cli translate runs/toy -i data/toy/test.de -o test.en
    """
    if given.are_many:
        many_files.translate_files(given)
    elif given.document is not None:
        documents.translate_document(given)
    else:
        translation.translate_text(given)
