"""What ``translate`` does with lines of text, or with other rows: reads, translates, writes."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple, TextIO

from transformer_cli.base.errors import (
    CorpusError,
    InputError,
    MissingTextError,
    TransformerCliError,
    UsageError,
)
from transformer_cli.base.locations import open_regular
from transformer_cli.base.messages import bar, log, warn
from transformer_cli.base.text_files import is_compressed, is_plain, open_text, text_writer
from transformer_cli.cli.options import prefix_errors
from transformer_cli.cli.process import discard_output
from transformer_cli.cli.translate import TranslateOptions
from transformer_cli.inference import loading
from transformer_cli.inference.engine import SearchEngine
from transformer_cli.inference.output import Output, output_file
from transformer_cli.inference.plain_text import check_is_text
from transformer_cli.inference.translation import Notes, Watcher
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.lines import bounded_lines, decode_lines

_COUNTED_BYTES = 1 << 30  # a larger input's lines are not counted, as that takes seconds


class Row(NamedTuple):
    """What is translated as one line, and written as one: a line of text, or a table's row."""

    text: str
    """The text to translate, on one line."""
    source: str
    """All of the row, as one line."""
    to_line: Callable[[str], str]
    """Returns the line that is written, given the translation."""


@dataclass(frozen=True)
class Translating:
    """Rows to translate, and their translator."""

    options: TranslateOptions
    translator: TextTranslator[SearchEngine]
    rows: Iterator[Row]
    notes: Sequence[Notes]
    """They look at the translations."""
    interactive: bool = False
    """Whether a person types the lines, and waits for each translation."""

    def write(
        self, write: Callable[[list[str], list[str]], object], watcher: Watcher, done: int = 0
    ) -> tuple[int, list[str]]:
        """Translate and write each row after the first ``done``, which are taken already.

        ``write`` takes the rows of a chunk as they were read, and the lines that are written of
        them. Return the number of rows, and what the user should know of them.
        """
        translator, number = self.translator, done
        chunk_lines = 1 if self.interactive else translator.chunk_lines
        read: deque[list[Row]] = deque()

        def read_chunks() -> Iterator[list[str]]:
            while rows := list(islice(self.rows, chunk_lines)):
                read.append(rows)
                yield [row.text for row in rows]

        for chunk in translator.translate_chunks(
            read_chunks(),
            n_best=translator.n_best,
            first_line=done + 1,
            reads_ahead=self.options.reads_file,
            watcher=watcher,
        ):
            rows, lines = read.popleft(), []
            for row, found in zip(rows, chunk, strict=True):
                number += 1
                lines.append(row.to_line(translator.to_line(number, row.text, found)))
                for note in self.notes:
                    for remark in note.look(number, row.text, found):
                        if self.interactive:
                            warn(f"line {number:,}", remark)
            write([row.source for row in rows], lines)
        written = number - done
        return written, [message for note in self.notes for message in note.summary(written)]


class InputFormat:
    """What ``translate`` does with inputs of a kind."""

    def translate(self, given: TranslateOptions) -> None:
        """Check the options, load the model, translate the input and write the output."""
        raise NotImplementedError


class RowFormat(InputFormat):
    """Lines of text; subclasses read what is translated as lines, such as the rows of a table."""

    def read(
        self, given: TranslateOptions, source: BinaryIO, lines: Iterable[bytes]
    ) -> Iterator[Row]:
        """Yield the rows of an open input, whose lines are also given as bytes."""
        decoded = decode_lines(lines, given.input_name, given.errors)
        return (Row(text=line, source=line, to_line=str) for line in decoded)

    def fingerprint(self) -> dict[str, str]:
        """Return what decides the output, by name."""
        return {}

    def translate(self, given: TranslateOptions) -> None:
        """Check the options, open the text, load the model, translate and write."""
        given.check()
        with self.open(given) as job:
            if given.writes_stream:
                with _open_stream(given.output) as file:
                    show = partial(print, sep="\n", file=file, flush=job.interactive)
                    # A bar and translations on one terminal would get in each other's way.
                    _write(job, lambda _, lines: show(*lines), hidden=file.isatty())
            else:
                with self.open_output(job) as output, _describing_rest(output):
                    _write(job, output.write, output.kept)

    @contextmanager
    def open(
        self, given: TranslateOptions, translator: TextTranslator[SearchEngine] | None = None
    ) -> Iterator[Translating]:
        """Open the input, then load the model unless it is given."""
        with ExitStack() as stack:
            rows, interactive = stack.enter_context(self._open_rows(given))
            translator = translator or load_translator(given)
            # Outside the output: what is noted of its lines appears only if they do.
            notes = [stack.enter_context(each.notes()) for each in translator.all_revisers]
            yield Translating(given, translator, rows, notes, interactive)

    @contextmanager
    def _open_rows(self, given: TranslateOptions) -> Iterator[tuple[Iterator[Row], bool]]:
        """Open the input; yield its rows, and whether a person types them."""
        with open_input(given.input_) as source:
            if source.isatty():
                end = "Ctrl-Z and Enter end" if sys.platform == "win32" else "Ctrl-D ends"
                log(f"one sentence a line; {end}")
            lines = bounded_lines(source, given.input_name)
            yield self.read(given, source, lines), source.isatty()

    @contextmanager
    def open_output(self, job: Translating) -> Iterator[Output]:
        """Open the file of translations; take from ``job`` the rows that are translated already."""
        options = job.options
        terms = {**job.translator.settings_fingerprint, "errors": options.errors}
        for each in options.extras:
            terms |= each.fingerprint()
        terms |= self.fingerprint()
        if is_compressed(options.output):
            terms["compression"] = options.output.suffix

        def read_again() -> Iterator[str]:
            with self._open_rows(options) as (rows, _):
                yield from (row.source for row in rows)

        # Further outputs are not kept, so neither are the translations that they belong to.
        keep = options.are_files and not options.marked("writes")
        with output_file(options.output, terms, read_again() if keep else None) as output:
            deque(islice(job.rows, output.kept), maxlen=0)
            yield output


def open_format(given: TranslateOptions) -> InputFormat:
    """Return what translates the input: lines of text, or what an extension reads."""
    if (kind := given.kind) is not None:
        return kind.open(given)
    check_is_text(given.input_, given.describe_kinds())
    return RowFormat()


def load_translator(options: TranslateOptions) -> TextTranslator[SearchEngine]:
    """Load the run's model, to search as the options say."""
    run, checkpoint = RunDirectory(options.run), options.checkpoint
    compute = loading.ComputeOptions(
        options.engine, options.device, options.precision, options.threads, options.search
    )
    needs = list(dict(options.marked("torch")))
    has_scores = bool(options.marked("scores"))  # which other engines have, but others
    engine = loading.choose_engine(run, compute, needs, prefers_torch=has_scores)
    if run.only_engine and checkpoint != "best":
        raise UsageError(
            f"--checkpoint {checkpoint}: {run.path} holds one exported model; leave it out, "
            "or name the run that it was made of"
        )
    is_named = compute.engine not in ("auto", "torch")
    with prefix_errors(f"--engine {compute.engine}: ") if is_named else nullcontext():
        translator = loading.load_translator(run, checkpoint, replace(compute, engine=engine))
    return options.prepare(translator.with_search(max_length=options.max_length, **options.search))


def _write(
    job: Translating,
    write: Callable[[list[str], list[str]], object],
    done: int = 0,
    hidden: bool = False,
) -> None:
    """Translate and write the rows under a bar; report what the user should know of them."""
    with bar(None, "translating", " lines", done, hidden or job.interactive) as shown:
        if not shown.disable:
            shown.total = count_lines(job.options)
            shown.refresh()
        watcher = Watcher(shown.update, partial(warn, job.options.input_name))
        _, messages = job.write(write, watcher, done)
    if not job.interactive:
        for message in messages:
            log(message)


@contextmanager
def _describing_rest(output: Output) -> Iterator[None]:
    """Say how many lines are kept, if there is an error."""
    try:
        yield
    except BaseException as error:
        if not output.kept:
            raise
        hint = f"{output.kept:,} lines are kept; run the same command again to resume"
        if isinstance(error, TransformerCliError):
            raise type(error)(f"{error}; {hint}") from error
        log(hint)
        raise


def count_lines(options: TranslateOptions) -> int | None:
    """Return how many lines the input has; None: counting them would take long or is impossible."""
    path = options.input_
    if not (options.reads_file and is_plain(path)) or path.stat().st_size > _COUNTED_BYTES:
        return None
    with open_regular(path) as file:
        count, end = 0, b"\n"
        for block in iter(partial(file.read, 1 << 20), b""):
            count, end = count + block.count(b"\n"), block[-1:]
        return count + (end != b"\n")


@contextmanager
def open_input(path: Path, option: str = "-i") -> Iterator[BinaryIO]:
    """Open standard input, or a file, which may be compressed; ``option`` names it."""
    if str(path) == "-":
        if sys.stdin is None:  # as after `<&-` in a shell
            raise InputError(f"standard input is closed; name a file with {option}")
        yield sys.stdin.buffer
        return
    try:
        opened = open_text(path, once=True)
    except CorpusError as error:
        kind = MissingTextError if isinstance(error, MissingTextError) else InputError
        raise kind(f"{error}; check {option}") from error
    with opened as file:
        yield file


@contextmanager
def _open_stream(path: Path) -> Iterator[TextIO]:
    """Open standard output, a device or a pipe, compressed if its name says so."""
    if str(path) == "-":
        if sys.stdout is None:
            raise InputError("standard output is closed; name a file with -o")
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
        try:
            yield sys.stdout
        except OSError as error:
            if discard_output(error) is not None:
                raise
        return
    try:
        with text_writer(path, path) as file:
            yield file
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
