"""What ``transformer-cli translate`` does once it is known what is to be translated by what."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import FileIO
from itertools import islice, tee
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from transformer_cli.cli import options
from transformer_cli.cli.display import bar, log, warn
from transformer_cli.cli.streams import output_stream
from transformer_cli.compression import text_writer
from transformer_cli.errors import TransformerCliError, UsageError
from transformer_cli.files import is_stream, sha256, whole_file
from transformer_cli.inference.output import Output, output_file
from transformer_cli.inference.stream import Form, translate_stream, with_prefixes
from transformer_cli.inference.translator import Translator
from transformer_cli.ranks import Ranks

if TYPE_CHECKING:
    from tqdm import tqdm


@dataclass(frozen=True)
class Places:
    """Where text comes from and goes to; '-' is standard input or output."""

    input: Path
    output: Path
    prefixes: Path | None
    alignments: Path | None

    @property
    def name(self) -> str:
        """The input's, for messages."""
        return "standard input" if str(self.input) == "-" else str(self.input)

    @property
    def to_stream(self) -> bool:
        """Whether translations are written as they come."""
        return _is_stream(self.output)

    @property
    def are_files(self) -> bool:
        """Whether all can be gone through again."""
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
        form: what is written of a line.
        lines: the text.
        prefixes: what the translations start with, if given.
        places: where all that comes from and goes to.
        chunk_lines: lines translated together, on each rank.
        ranks: who shares the work.
    """

    translator: Translator
    form: Form
    lines: Iterator[str]
    prefixes: Iterator[str] | None
    places: Places
    chunk_lines: int
    ranks: Ranks

    def records(self, done: int = 0) -> Iterator[tuple[str, list[str]]]:
        """Each line that is left, once ``done`` of them are taken, with what is written of it."""
        prefixes = self.prefixes and islice(self.prefixes, done, None)
        prefixed = with_prefixes(self.lines, prefixes, str(self.places.prefixes), done + 1)
        sources, remembered = tee(prefixed)
        records = translate_stream(
            self.translator,
            sources,
            self.form,
            self.chunk_lines,
            done + 1,
            partial(warn, self.places.name),
            self.ranks,
        )
        return zip((line for line, _ in remembered), records, strict=False)

    @property
    def terms(self) -> dict[str, str]:
        """What decides what is written of a line, each by its name."""
        terms = self.translator.terms
        if self.form.n_best is not None:
            terms["n_best"] = str(self.form.n_best)
        if self.places.are_files and self.places.prefixes is not None:
            terms["prefixes"] = sha256(self.places.prefixes)
        return terms


def work(job: Job, terms: Mapping[str, str], resume: bool, flushing: bool) -> None:
    """Translate and write.

    Args:
        job: what.
        terms: what translations depend on beside the job's own terms.
        resume: whether to go on from what an earlier process has kept.
        flushing: whether somebody waits for each line.
    """
    places, ranks = job.places, job.ranks
    if not ranks.leads:
        (kept,) = ranks.sum([0])  # as the leading one has found
        done = sum(1 for _ in islice(job.lines, int(kept)))
        for _ in job.records(done):
            pass
        return
    if places.to_stream:
        _to_stream(places, job.records(), flushing)
        return
    # Alignments are not gone on with, so neither are their translations.
    keep = places.are_files and places.alignments is None
    all_terms = {**job.terms, **terms}
    with (
        _alignments(places.alignments) as alignments,
        output_file(places.output, all_terms, job.chunk_lines * ranks.size, keep) as file,
        _saying_how(file),
    ):
        if resume:
            file.go_on(job.lines)
        else:
            file.begin()
        ranks.sum([file.kept])
        _to_file(file, job.records(file.kept), alignments)


def _to_stream(places: Places, records: Iterable[tuple[str, list[str]]], flushing: bool) -> None:
    with (
        output_stream(places.output) as stream,
        # Inside, so that no half of them appears where nobody reads all translations.
        _alignments(places.alignments) as alignments,
        # A bar and translations on one terminal would get in each other's way.
        _bar(hidden=stream.isatty()) as lines_bar,
    ):
        for _, (translation, *links) in records:
            stream.write(translation + "\n")
            _write_links(alignments, links)
            lines_bar.update()
            if flushing:
                stream.flush()


def _to_file(
    file: Output, records: Iterable[tuple[str, list[str]]], alignments: TextIO | None
) -> None:
    with _bar(initial=file.kept) as lines_bar:
        for line, (translation, *links) in records:
            file.write(line, translation)
            _write_links(alignments, links)
            lines_bar.update()


def _write_links(alignments: TextIO | None, links: list[str]) -> None:
    if alignments is not None:
        alignments.write(links[0] + "\n")


@contextmanager
def _alignments(path: Path | None) -> Iterator[TextIO | None]:
    """A file that appears when the block ends well."""
    if path is None:
        yield None
        return
    with whole_file(path) as temporary, text_writer(FileIO(temporary, "w"), path) as file:
        yield file


def _bar(initial: int = 0, hidden: bool = False) -> "tqdm[Any]":
    return bar(None, "translating", " lines", initial, hidden)


@contextmanager
def _saying_how(file: Output) -> Iterator[None]:
    """Say with whatever ends the block early how to go on, if there is something to go on from."""
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
