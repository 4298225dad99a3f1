"""How ``translate`` reads, translates and writes lines of text or other rows."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
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
from transformer_cli.base.locations import is_local, open_regular
from transformer_cli.base.messages import bar, log, warn
from transformer_cli.base.pipes import PolledReader, poll
from transformer_cli.base.text_files import is_compressed, open_text, text_writer
from transformer_cli.cli.options import prefix_errors
from transformer_cli.cli.process import discard_output
from transformer_cli.cli.translate import TranslateOptions, is_stream
from transformer_cli.inference import loading
from transformer_cli.inference.engine import SearchEngine
from transformer_cli.inference.output import Output, output_file
from transformer_cli.inference.plain_text import check_is_text
from transformer_cli.inference.translation import Notes
from transformer_cli.inference.translator import TextTranslator, Watcher
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.lines import bounded_lines, decode_lines

_COUNTED_BYTES = 1 << 30  # lines of a larger input are not counted: it takes seconds


class Row(NamedTuple):
    """A line of text or a row of a table, which is translated and written as one line."""

    text: str
    """The text to translate, on one line."""
    source: str
    """The whole row, as one line."""
    to_line: Callable[[str], str]
    """A function that takes the translation and returns the line to write."""


@dataclass(frozen=True)
class Translating:
    """Rows to translate, and their translator."""

    options: TranslateOptions
    translator: TextTranslator[SearchEngine]
    rows: Iterator[Row]
    notes: Sequence[Notes]
    """Objects that look at the translations and report on them to the user."""
    interactive: bool
    """Whether a person types the lines and waits for each translation."""
    waits: Callable[[], bool]
    """Whether reading another row would wait for the program that writes it."""

    def write(
        self, write: Callable[[list[str], list[str]], object], watcher: Watcher, done: int = 0
    ) -> tuple[int, list[str]]:
        """Translate and write the rows; the caller has already skipped the first ``done`` rows.

        ``write`` takes some rows as they were read, and the lines to write for them.
        Return the number of rows written, and messages about them for the user.
        """
        translator, number = self.translator, done
        read: deque[list[Row]] = deque()

        def read_chunks() -> Iterator[list[str]]:
            while rows := self._read_chunk():
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

    def _read_chunk(self) -> list[Row]:
        """Return the next rows, as many as can be read without waiting, but at least one."""
        rows: list[Row] = []
        for row in self.rows:
            rows.append(row)
            if len(rows) == self.translator.chunk_lines or self.waits():
                break
        return rows


class InputFormat:
    """The base class of the code with which ``translate`` handles a kind of input, e.g. text."""

    def translate(self, given: TranslateOptions) -> None:
        """Check the options, load the model, translate the input and write the output."""
        raise NotImplementedError


class RowFormat(InputFormat):
    """The format of lines of text; subclasses read other input, such as table rows, as lines."""

    def read(
        self, given: TranslateOptions, source: BinaryIO, lines: Iterable[bytes]
    ) -> Iterator[Row]:
        """Yield the rows of an open input; ``lines`` are its lines as bytes."""
        decoded = decode_lines(lines, given.input_name, given.errors)
        return (Row(text=line, source=line, to_line=str) for line in decoded)

    def fingerprint(self) -> dict[str, str]:
        """Return the format's own settings that affect the output, keyed by name."""
        return {}

    def translate(self, given: TranslateOptions) -> None:
        """Check the options, open the text, load the model, translate and write."""
        given.check()
        # Notes see the error and leave no half of a file.
        with suppress(_ClosedPipeError), self.open(given) as job:
            if is_stream(given.output):  # write each translation as soon as it is ready
                with _open_stream(given.output) as file:
                    show = partial(print, sep="\n", file=file, flush=True)
                    # On one terminal, the bar and the translations would mix.
                    _write(job, lambda _, lines: show(*lines), hidden=file.isatty())
            else:
                with self.open_output(job) as output, _describing_rest(output):
                    _write(job, output.write, output.kept)

    @contextmanager
    def open(
        self, given: TranslateOptions, translator: TextTranslator[SearchEngine] | None = None
    ) -> Iterator[Translating]:
        """Open the input, then load the run's model, unless ``translator`` is given."""
        with ExitStack() as stack:
            rows, source = stack.enter_context(self._open_rows(given))
            translator = translator or load_translator(given)
            # Opened before the output: notes on its lines appear only if the lines do.
            notes = [*map(stack.enter_context, translator.new_notes())]
            # A terminal gives one line at a time.
            is_typed = source.isatty()
            waits = source.waits if isinstance(source, PolledReader) else partial(bool, is_typed)
            yield Translating(given, translator, rows, notes, is_typed, waits)

    @contextmanager
    def _open_rows(self, given: TranslateOptions) -> Iterator[tuple[Iterator[Row], BinaryIO]]:
        with open_input(given.input_) as source:
            if source.isatty():
                end = "Ctrl-Z and Enter" if sys.platform == "win32" else "Ctrl-D"
                log(f"type one sentence per line; {end} to end")
            lines = bounded_lines(source, given.input_name)
            yield self.read(given, source, lines), source

    @contextmanager
    def open_output(self, job: Translating) -> Iterator[Output]:
        """Open the output file; skip the rows that an interrupted process has translated."""
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

        # Other outputs cannot be resumed, so neither can their translations.
        paths = (options.input_, options.output, *(path for _, path in options.marked("reads")))
        keep = not any(map(is_stream, paths)) and not options.marked("writes")
        with output_file(options.output, terms, read_again() if keep else None) as output:
            deque(islice(job.rows, output.kept), maxlen=0)
            yield output


def open_format(given: TranslateOptions) -> InputFormat:
    """Return the format that translates the input: lines of text, or an extension's format."""
    if (kind := given.kind) is not None:
        return kind.open(given)
    check_is_text(given.input_, given.describe_kinds())
    return RowFormat()


def load_translator(options: TranslateOptions) -> TextTranslator[SearchEngine]:
    """Load the run's model, with the search that the options ask for."""
    run, checkpoint = RunDirectory(options.run), options.checkpoint
    compute = loading.ComputeOptions(
        options.engine, options.device, options.precision, options.threads, options.search
    )
    needs = list(dict(options.marked("torch")))
    has_scores = bool(options.marked("scores"))  # other engines give other scores
    engine = loading.choose_engine(run, compute, needs, prefers_torch=has_scores)
    if run.only_engine and checkpoint != "best":
        raise UsageError(
            f"--checkpoint {checkpoint}: {run.path} holds one exported model; leave the option "
            "out, or give the run that the model was exported from"
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
    """Translate and write the rows with a progress bar; log what the user should know."""
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
    """If the block raises an error, report how many lines of the output are kept."""
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
    """Return how many lines the input has, or None if counting is impossible or too slow."""
    path = options.input_
    is_plain = options.reads_file and not is_compressed(path) and is_local(path)
    if not is_plain or path.stat().st_size > _COUNTED_BYTES:
        return None
    with open_regular(path) as file:
        count, end = 0, b"\n"
        for block in iter(partial(file.read, 1 << 20), b""):
            count, end = count + block.count(b"\n"), block[-1:]
        return count + (end != b"\n")


@contextmanager
def open_input(path: Path, option: str = "-i") -> Iterator[BinaryIO]:
    """Open standard input or a file, which may be compressed; errors refer to ``option``."""
    if str(path) == "-":
        if sys.stdin is None:  # as after `<&-` in a shell
            raise InputError(f"standard input is closed; give a file with {option}")
        yield poll(sys.stdin.buffer)
        return
    try:
        opened = open_text(path, once=True)
    except CorpusError as error:
        kind = MissingTextError if isinstance(error, MissingTextError) else InputError
        raise kind(f"{error}; check {option}") from error
    with opened as file:
        yield file


class _ClosedPipeError(Exception):
    """Nobody reads standard output any more, as in ``translate … | head``; this is no error."""


@contextmanager
def _open_stream(path: Path) -> Iterator[TextIO]:
    """Open standard output, a device or a pipe, compressed if the name ends in .gz or similar."""
    if str(path) == "-":
        if sys.stdout is None:
            raise InputError("standard output is closed; give a file with -o")
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
        try:
            yield sys.stdout
        except OSError as error:
            if discard_output(error) is None:
                raise _ClosedPipeError from error
            raise
        return
    try:
        with text_writer(path, path) as file:
            yield file
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
