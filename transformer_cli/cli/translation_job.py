"""Text on its way from a stream through a translator into a file."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice, tee
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from transformer_cli.cli import options
from transformer_cli.cli.display import bar, log, warn
from transformer_cli.cli.streams import output_stream
from transformer_cli.errors import TransformerCliError, UsageError
from transformer_cli.files import is_stream, sha256, whole_file
from transformer_cli.inference.engine import SearchEngine
from transformer_cli.inference.output import Output, output_file
from transformer_cli.inference.stream import (
    OutputFormat,
    Record,
    translate_stream,
    with_prefixes,
)
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.ranks import Ranks

if TYPE_CHECKING:
    from tqdm import tqdm


@dataclass(frozen=True)
class Paths:
    """Where text comes from and goes to; '-' is standard input or output."""

    input: Path
    output: Path
    prefixes: Path | None
    alignments: Path | None

    @property
    def name(self) -> str:
        """The input's name in messages."""
        return "standard input" if str(self.input) == "-" else str(self.input)

    @property
    def to_stream(self) -> bool:
        """True if translations are written as they come."""
        return _is_stream(self.output)

    @property
    def are_files(self) -> bool:
        """True if all can be read and written again."""
        read = [self.input, *([self.prefixes] if self.prefixes else [])]
        return not self.to_stream and not any(map(_is_stream, read))

    def check(self, resume: bool, ranks: Ranks) -> None:
        """Make sure, before long work, that they fit together.

        Raises:
            UsageError: they do not.
        """
        inputs = {"-i": self.input, "--prefix-file": self.prefixes}
        if str(self.output) != "-":
            options.check_output(self.output, inputs=inputs)
        if self.alignments is not None:
            options.check_output(self.alignments, "--alignments", inputs)
            if str(self.alignments) == "-":
                raise UsageError("translate: --alignments needs the name of a file")
            if self.alignments.resolve() == self.output.resolve():
                raise UsageError(f"translate: -o and --alignments are both {self.output}")
            if resume:
                raise UsageError(
                    "translate: --resume does not go on with --alignments; leave one of them out"
                )
        if str(self.input) == "-" and str(self.prefixes) == "-":
            raise UsageError("translate: -i and --prefix-file are both standard input; name a file")
        needs = "name them with -i and -o" + (" and --prefix-file" if self.prefixes else "")
        if resume and not self.are_files:
            raise UsageError(f"translate: --resume needs files; {needs}")
        if ranks.size > 1 and not self.are_files:
            raise UsageError(f"translate: several processes need files; {needs}")


def _is_stream(path: Path) -> bool:
    return str(path) == "-" or is_stream(path)


@dataclass(frozen=True)
class Job:
    """Text to be translated.

    Attributes:
        translator: what translates.
        output_format: what is written of a line.
        lines: the text.
        prefixes: what the translations start with, if given.
        paths: where all that comes from and goes to.
        chunk_lines: lines translated together, on each rank.
        ranks: who shares the work.
    """

    translator: TextTranslator[SearchEngine]
    output_format: OutputFormat
    lines: Iterator[str]
    prefixes: Iterator[str] | None
    paths: Paths
    chunk_lines: int
    ranks: Ranks

    def translate(self, done: int = 0) -> Iterator[tuple[str, Record]]:
        """Yield each line that is left, once ``done`` of them are taken, with its record."""
        prefixes = self.prefixes and islice(self.prefixes, done, None)
        prefixed = with_prefixes(self.lines, prefixes, str(self.paths.prefixes), done + 1)
        sources, remembered = tee(prefixed)
        records = translate_stream(
            self.translator,
            sources,
            self.output_format,
            self.chunk_lines,
            done + 1,
            partial(warn, self.paths.name),
            self.ranks,
        )
        return zip((line for line, _ in remembered), records, strict=False)

    @property
    def settings_fingerprint(self) -> dict[str, str]:
        """All that decides what is written of a line, each setting by its name."""
        settings = self.translator.settings_fingerprint
        if self.output_format.n_best is not None:
            settings["n_best"] = str(self.output_format.n_best)
        if self.paths.are_files and self.paths.prefixes is not None:
            settings["prefixes"] = sha256(self.paths.prefixes)
        return settings


def run_job(job: Job, settings: Mapping[str, str], resume: bool, flush: bool) -> None:
    """Translate and write.

    Args:
        job: what to translate, by what, and where to.
        settings: what translations depend on besides the job's own settings.
        resume: whether to go on from what an earlier process has kept.
        flush: whether somebody waits for each line.
    """
    paths, ranks = job.paths, job.ranks
    if not ranks.leads:
        (kept,) = ranks.sum([0])  # as the leading one has found
        done = sum(1 for _ in islice(job.lines, int(kept)))
        for _ in job.translate(done):
            pass
        return
    if paths.to_stream:
        _write_to_stream(paths, job.translate(), flush)
        return
    # Alignments are not gone on with, so neither are their translations.
    keep = paths.are_files and paths.alignments is None
    fingerprint = {**job.settings_fingerprint, **settings}
    with (
        _open_alignments(paths.alignments) as alignments,
        output_file(paths.output, fingerprint, job.chunk_lines * ranks.size, keep) as file,
        _hint_at_resuming(file),
    ):
        if resume:
            file.go_on(job.lines)
        else:
            file.begin()
        ranks.sum([file.kept])
        _write_to_file(file, job.translate(file.kept), alignments)


def _write_to_stream(paths: Paths, records: Iterable[tuple[str, Record]], flush: bool) -> None:
    with (
        output_stream(paths.output) as file,
        # Inside, so that no half of them appears where nobody reads all translations.
        _open_alignments(paths.alignments) as alignments,
        # A bar and translations on one terminal would get in each other's way.
        _bar(hidden=file.isatty()) as lines_bar,
    ):
        for _, record in records:
            file.write(record.text + "\n")
            _write_alignment(alignments, record)
            lines_bar.update()
            if flush:
                file.flush()


def _write_to_file(
    file: Output, records: Iterable[tuple[str, Record]], alignments: TextIO | None
) -> None:
    with _bar(initial=file.kept) as lines_bar:
        for line, record in records:
            file.write(line, record.text)
            _write_alignment(alignments, record)
            lines_bar.update()


def _write_alignment(alignments: TextIO | None, record: Record) -> None:
    if alignments is not None:
        alignments.write(f"{record.alignment}\n")


@contextmanager
def _open_alignments(path: Path | None) -> Iterator[TextIO | None]:
    """Open a file that appears when the block ends well."""
    if path is None:
        yield None
        return
    with whole_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        yield file


def _bar(initial: int = 0, hidden: bool = False) -> "tqdm[Any]":
    return bar(None, "translating", " lines", initial, hidden)


@contextmanager
def _hint_at_resuming(file: Output) -> Iterator[None]:
    """Add to an error that ends the block how to go on, if there is something to go on from."""
    try:
        yield
    except BaseException as error:
        if not file.kept:
            raise
        hint = f"{file.kept:,} lines are kept; to go on, add --resume to the same command"
        if isinstance(error, TransformerCliError):
            raise type(error)(f"{error}; {hint}") from error
        log(hint)
        raise
