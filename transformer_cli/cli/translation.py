"""Kinds of input of ``translate``: lines of text, or other rows; read, translated and written."""

import json
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
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
from transformer_cli.base.text_files import (
    is_compressed,
    is_plain,
    open_text,
    text_writer,
)
from transformer_cli.cli.options import prefix_errors
from transformer_cli.cli.process import discard_output
from transformer_cli.cli.translate import TranslateOptions
from transformer_cli.inference import loading
from transformer_cli.inference.engine import SearchEngine
from transformer_cli.inference.output import Output, output_file
from transformer_cli.inference.plain_text import check_is_text
from transformer_cli.inference.translation import Notes, Translation, Watcher
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


Write = Callable[[list[str], list[str]], object]
"""Takes the rows of a chunk as they were read, and the lines that are written of them."""


class Translating(NamedTuple):
    """Text to translate, and its translator."""

    options: TranslateOptions
    translator: TextTranslator[SearchEngine]
    rows: Iterator[Row]
    form: "RowFormat"
    interactive: bool = False  # whether a person types the lines, and waits for each translation

    @property
    def chunk_lines(self) -> int:
        """Number of lines that are translated together."""
        return 1 if self.interactive else self.translator.chunk_lines


class InputFormat:
    """What ``translate`` does with inputs of a kind."""

    def translate(self, given: TranslateOptions) -> None:
        """Check the options, load the model, translate the input and write the output."""
        raise NotImplementedError


class RowFormat(InputFormat):
    """Lines, or what can be translated as lines, such as the rows of a table."""

    has_lines: bool = True
    """Whether each line of the input is a row."""

    def read(
        self, given: TranslateOptions, source: BinaryIO, raw_lines: Iterable[bytes]
    ) -> Iterator[Row]:
        """Yield the rows of an open input, whose lines are also given as bytes."""
        raise NotImplementedError

    def fingerprint(self) -> dict[str, str]:
        """Return what decides the output, by name."""
        return {}

    def translate(self, given: TranslateOptions) -> None:
        """Check the options, load the model, open the text, translate and write."""
        given.check()
        with ExitStack() as stack:
            rows, interactive = stack.enter_context(self.open_rows(given))
            for each in given.extras:
                rows = stack.enter_context(each.open_rows(rows, given))
            job = Translating(given, load_translator(given), rows, self, interactive)
            # Outside the output: what is noted of its lines appears only if they do.
            notes = [stack.enter_context(each.open_notes(given)) for each in given.extras]
            _write_output(job, [*filter(None, notes)])

    @contextmanager
    def open_rows(self, given: TranslateOptions) -> Iterator[tuple[Iterator[Row], bool]]:
        """Open the input; yield its rows, and whether a person types them."""
        with open_input(given.input_) as source:
            interactive = source.isatty()
            raw = (
                _prompt_for_lines(source)
                if interactive
                else bounded_lines(source, given.input_name)
            )
            yield self.read(given, source, raw), interactive


class LineFormat(RowFormat):
    """Lines of text."""

    def read(
        self, given: TranslateOptions, source: BinaryIO, raw_lines: Iterable[bytes]
    ) -> Iterator[Row]:
        """Yield the lines."""
        lines = decode_lines(raw_lines, given.input_name, given.errors)
        return (Row(text=line, source=line, to_line=str) for line in lines)


def open_format(given: TranslateOptions) -> InputFormat:
    """Return what translates the input: lines of text, or what an extension reads."""
    if (kind := given.kind) is not None:
        return kind.open(given)
    check_is_text(given.input_, given.describe_kinds())
    return LineFormat()


def load_translator(options: TranslateOptions) -> TextTranslator[SearchEngine]:
    """Load the run's model, to search as the options say."""
    run, checkpoint = RunDirectory(options.run), options.checkpoint
    compute = loading.ComputeOptions(
        options.engine, options.device, options.precision, options.threads, options.beam_size
    )
    has_scores = options.n_best_written is not None  # which other engines have, but others
    engine = loading.choose_engine(run, compute, options.extra_needs(), prefers_torch=has_scores)
    if run.only_engine and checkpoint != "best":
        raise UsageError(
            f"--checkpoint {checkpoint}: {run.path} holds one exported model; leave it out, "
            "or name the run that it was made of"
        )
    is_named = compute.engine not in ("auto", "torch")
    with prefix_errors(f"--engine {compute.engine}: ") if is_named else nullcontext():
        chosen = replace(compute, engine=engine)
        translator = loading.load_translator(run, checkpoint, chosen)
    translator = translator.with_search(
        compute.beam_size, options.batch_tokens, options.max_length, options.length_penalty
    )
    translator = translator.with_search(max(options.n_best or 1, translator.decoding.beam_size))
    return options.prepare(translator)


def _write_output(job: Translating, notes: Sequence[Notes]) -> None:
    """Translate the rows, write them under a bar, and report what the user should know of them."""
    options = job.options
    if options.writes_stream:
        with _open_stream(options.output) as file:
            show = partial(print, sep="\n", file=file, flush=job.interactive)
            # A bar and translations on one terminal would get in each other's way.
            _write(job, lambda _, lines: show(*lines), notes, hidden=file.isatty())
        return
    with open_output(job) as output:
        try:
            _write(job, output.write, notes, output.kept)
        except BaseException as error:
            if not output.kept:
                raise
            hint = f"{output.kept:,} lines are kept; run the same command again to resume"
            if isinstance(error, TransformerCliError):
                raise type(error)(f"{error}; {hint}") from error
            log(hint)
            raise


def _write(
    job: Translating, write: Write, notes: Sequence[Notes], done: int = 0, hidden: bool = False
) -> None:
    with bar(None, "translating", " lines", done, hidden or job.interactive) as shown:
        if not shown.disable:
            shown.total = count_lines(job.options, job.form)
            shown.refresh()
        watcher = Watcher(shown.update, partial(warn, job.options.input_name))
        _, messages = write_rows(job, write, watcher, done, notes)
    if not job.interactive:
        for message in messages:
            log(message)


@contextmanager
def open_output(job: Translating) -> Iterator[Output]:
    """Open the file of translations; take from ``job`` the rows that are translated already."""
    options = job.options
    terms = {**job.translator.settings_fingerprint, "errors": options.errors}
    if (n_best := options.n_best_written) is not None:
        terms["n_best"] = str(n_best)
    for each in options.extras:
        terms |= each.fingerprint()
    terms |= job.form.fingerprint()
    if is_compressed(options.output):
        terms["compression"] = options.output.suffix

    def read_again() -> Iterator[str]:
        with job.form.open_rows(options) as (rows, _):
            yield from (row.source for row in rows)

    # Further outputs are not kept, so neither are the translations that they belong to.
    keep = options.are_files and not options.extra_paths("writes")
    with output_file(options.output, terms, read_again() if keep else None) as output:
        deque(islice(job.rows, output.kept), maxlen=0)
        yield output


def count_lines(options: TranslateOptions, form: RowFormat) -> int | None:
    """Return how many lines will be written; None: counting those of the input would take long."""
    path = options.input_
    if (
        not (options.reads_file and is_plain(path))
        or not form.has_lines
        or path.stat().st_size > _COUNTED_BYTES
    ):
        return None
    with open_regular(path) as file:
        count, end = 0, b"\n"
        for block in iter(partial(file.read, 1 << 20), b""):
            count, end = count + block.count(b"\n"), block[-1:]
        return count + (end != b"\n")


def write_rows(
    job: Translating,
    write: Write,
    watcher: Watcher,
    done: int = 0,
    notes: Sequence[Notes] = (),
) -> tuple[int, list[str]]:
    """Translate and write each remaining row, after the first ``done``.

    The caller has already taken these from ``job.rows``. ``notes`` look at the translations, as
    those of revisers do. Return the number of rows, and what the user should know of them.
    """
    options, as_json = job.options, job.options.n_best_written is not None
    notes = [*(reviser.notes() for reviser in job.translator.all_revisers), *notes]
    read: deque[list[Row]] = deque()

    def read_chunks() -> Iterator[list[str]]:
        while rows := list(islice(job.rows, job.chunk_lines)):
            read.append(rows)
            yield [row.text for row in rows]

    number = done
    for chunk in job.translator.translate_chunks(
        read_chunks(),
        n_best=options.n_best_written,
        first_line=done + 1,
        reads_ahead=options.reads_file,
        watcher=watcher,
    ):
        rows, lines = read.popleft(), []
        for row, found in zip(rows, chunk, strict=True):
            number += 1
            lines.append(row.to_line(_to_json(number, found) if as_json else found[0].text))
            for remark in (one for note in notes for one in note.look(number, row.text, found)):
                if job.interactive:
                    warn(f"line {number:,}", remark)
        write([row.source for row in rows], lines)
    written = number - done
    return written, [message for note in notes for message in note.summary(written)]


def _to_json(line: int, translations: Sequence[Translation]) -> str:
    shown = [
        {"text": one.text, "score": round(one.score, 4)}
        | {"log_probability": round(one.log_probability, 4)}
        for one in translations
    ]
    return json.dumps({"line": line, "translations": shown}, ensure_ascii=False)


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


def _prompt_for_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines that a person types, asked for on stderr."""
    end = "Ctrl-Z and Enter end" if sys.platform == "win32" else "Ctrl-D ends"
    log(f"one sentence a line; {end}")
    ask = partial(print, "> ", end="", file=sys.stderr, flush=True)
    ask()
    for line in lines:
        yield line
        ask()
    print(file=sys.stderr)
