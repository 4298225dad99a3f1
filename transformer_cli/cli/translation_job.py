"""What ``translate`` does: read lines, translate them, write to a stream or a file."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from io import FileIO
from itertools import islice, tee
from pathlib import Path
from typing import BinaryIO, NamedTuple, TextIO

from transformer_cli.cli import options
from transformer_cli.cli.display import bar, log, warn
from transformer_cli.cli.streams import open_input, output_stream, prompt_for_lines
from transformer_cli.cli.translate_options import TranslateOptions
from transformer_cli.compression import is_compressed, text_writer
from transformer_cli.data.corpus import bounded_lines, decode_lines
from transformer_cli.errors import TransformerCliError, UsageError
from transformer_cli.files import sha256, whole_file
from transformer_cli.inference import loading
from transformer_cli.inference import translator as text_translator
from transformer_cli.inference.ctranslate2_engine import CTranslate2Engine
from transformer_cli.inference.engine import SearchEngine
from transformer_cli.inference.lines import OutputFormat, Row, TextRow, TranslatedLine
from transformer_cli.inference.loading import ComputeOptions
from transformer_cli.inference.output import Output, output_file
from transformer_cli.inference.rows import read_rows
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.ranks import Ranks
from transformer_cli.runs.directory import RunDirectory


class Job(NamedTuple):
    """Text to translate, and its translator."""

    asked: TranslateOptions
    translator: TextTranslator[SearchEngine]
    rows: Iterator[Row]
    prefixes: Iterator[str] | None
    interactive: bool
    """Whether a person types the lines, and waits for each translation."""
    ranks: Ranks

    @property
    def chunk_lines(self) -> int:
        """Number of lines that each rank translates together."""
        return 1 if self.interactive else text_translator.CHUNK_LINES


def translate_text(asked: TranslateOptions) -> None:
    """Load the model, open the text, translate and write.

    Raises:
        UsageError: the options do not go together.
        TransformerCliError: something is missing or damaged, or cannot be written.
    """
    ranks = Ranks.from_env()
    asked.check(ranks)
    with ExitStack() as stack:
        source = stack.enter_context(open_input(asked.input))
        prefixes = None
        if asked.prefix_file is not None:
            raw = stack.enter_context(open_input(asked.prefix_file, "--prefix-file"))
            name = str(asked.prefix_file)
            prefixes = decode_lines(bounded_lines(raw, name), name, asked.errors)
        if ranks.size > 1 or asked.device == "mps":
            device = options.open_device(asked.device, ranks)
            ranks = stack.enter_context(ranks.init(device))
        translator = _load_translator(asked, ranks)
        rows, interactive = _read_rows(asked, source), source.isatty()
        _run(Job(asked, translator, rows, prefixes, interactive, ranks))


def _read_rows(asked: TranslateOptions, source: BinaryIO) -> Iterator[Row]:
    """Return the rows of the input, which is a table or text."""
    if asked.table is not None:
        is_json = _n_best(asked) is not None
        output = asked.table_output
        return read_rows(asked.table, source, asked.input_name, output, asked.errors, is_json)
    name = asked.input_name
    raw_lines = prompt_for_lines(source) if source.isatty() else bounded_lines(source, name)
    return map(TextRow, decode_lines(raw_lines, name, asked.errors))


def _load_translator(asked: TranslateOptions, ranks: Ranks) -> TextTranslator[SearchEngine]:
    run = RunDirectory(asked.run)
    computing = ComputeOptions(
        asked.engine, asked.device, asked.precision, asked.threads, asked.beam_size
    )
    has_scores = _n_best(asked) is not None
    engine = loading.choose_engine(run, computing, _needing_torch(asked), prefers_torch=has_scores)
    if run.is_for_ctranslate2 and asked.checkpoint != "best":
        raise UsageError(
            f"--checkpoint {asked.checkpoint}: {run.path} holds one exported model; leave it out, "
            "or name the run that it was made of"
        )
    computing = replace(computing, engine=engine)
    is_named = asked.engine == "ctranslate2"
    with options.prefix_errors("--engine ctranslate2: ") if is_named else nullcontext():
        others = [RunDirectory(other) for other in asked.ensemble]
        translator = loading.load_translator(
            run, asked.checkpoint, computing, ranks=ranks, others=others
        )
    translator = translator.with_search(
        asked.beam_size, asked.batch_tokens, asked.max_length, asked.length_penalty
    )
    translator = translator.with_search(max(asked.n_best or 1, translator.decoding.beam_size))
    if asked.sample is not None:
        translator = translator.with_sampling(asked.sample)
    with options.prefix_errors("--tag: "):
        translator = translator.with_tag(asked.tag)
    with options.prefix_errors("--replace-unk: ", "; leave it out"):
        return translator.with_unk_replacement() if asked.replace_unk else translator


def _needing_torch(asked: TranslateOptions) -> list[str]:
    """Return the options that CTranslate2 cannot serve; scores it can, but has others."""
    needs = {
        "--ensemble": bool(asked.ensemble),
        "--prefix-file": asked.prefix_file is not None and not CTranslate2Engine.supports_prefixes,
        "--sample": asked.sample is not None and not CTranslate2Engine.supports_sampling,
        "--alignments": asked.alignments is not None and not CTranslate2Engine.supports_alignments,
        "--replace-unk": asked.replace_unk and not CTranslate2Engine.supports_alignments,
    }
    return [option for option, unfit in needs.items() if unfit]


def _run(job: Job) -> None:
    asked, ranks = job.asked, job.ranks
    if not ranks.is_main:
        # lines already translated, as the main rank read in the journal
        (kept,) = ranks.sum([0])
        done = sum(1 for _ in islice(job.rows, int(kept)))
        for _ in _translate(job, done):
            pass
        return
    if asked.writes_stream:
        with (
            output_stream(asked.output) as stdout,
            # Innermost, so that a closed stdout leaves no incomplete alignments file.
            _open_alignments(asked.alignments) as alignments,
        ):
            print_line = partial(print, file=stdout, flush=job.interactive)
            # A bar and translations on one terminal would get in each other's way.
            _write(job, lambda _, text: print_line(text), alignments, hidden=stdout.isatty())
        return
    # --alignments cannot be resumed, so the translations are not kept for it either.
    keep = asked.are_files and asked.alignments is None
    chunk_lines = job.chunk_lines * ranks.size
    with (
        _open_alignments(asked.alignments) as alignments,
        output_file(asked.output, _fingerprint(job), chunk_lines, keep) as file,
        _hint_at_resuming(file),
    ):
        if asked.resume:
            with options.prefix_errors("--resume: ", "; start anew without --resume"):
                file.resume(row.source for row in job.rows)
        else:
            file.begin()
        ranks.sum([file.kept])
        _write(job, file.write, alignments, file.kept)


def _translate(job: Job, done: int) -> Iterator[tuple[Row, TranslatedLine]]:
    """Yield each remaining row with its translation.

    The caller has already taken ``done`` rows from ``job.rows``, but no prefixes.
    """
    asked = job.asked
    prefixes = job.prefixes and islice(job.prefixes, done, None)
    rows, remembered = tee(job.rows)
    lines = (row.text for row in rows)
    prefixed = text_translator.with_prefixes(lines, prefixes, str(asked.prefix_file), done + 1)
    translated = text_translator.translate_stream(
        job.translator,
        prefixed,
        OutputFormat(_n_best(asked), asked.alignments is not None),
        job.chunk_lines,
        done + 1,
        lambda long: warn(asked.input_name, replace(long, line=long.line + asked.line_offset)),
        job.ranks,
    )
    # The translations first, so that they are asked for until the prefixes' end is checked.
    return ((row, each) for each, row in zip(translated, remembered, strict=False))


def _n_best(asked: TranslateOptions) -> int | None:
    return asked.n_best or (1 if asked.scores else None)


def _fingerprint(job: Job) -> dict[str, str]:
    """Return every setting that decides the output, by name."""
    settings = {**job.translator.settings_fingerprint, "errors": job.asked.errors}
    if (n_best := _n_best(job.asked)) is not None:
        settings["n_best"] = str(n_best)
    if job.asked.are_files and job.asked.prefix_file is not None:
        settings["prefixes"] = sha256(job.asked.prefix_file)
    if (table := job.asked.table) is not None:
        settings["table"] = f"{table.format} {table.key!r} to {job.asked.table_output}"
    if is_compressed(job.asked.output):
        settings["compression"] = job.asked.output.suffix
    return settings


def _write(
    job: Job,
    write: Callable[[str, str], object],
    alignments: TextIO | None,
    done: int = 0,
    hidden: bool = False,
) -> None:
    """Call ``write(source, line)`` for each remaining row, after the first ``done``."""
    differing = first = 0
    number = done
    with bar(None, "translating", " lines", done, hidden) as lines_bar:
        for number, (row, translated) in enumerate(_translate(job, done), start=done + 1):
            write(row.source, row.to_line(translated.text))
            if alignments is not None:
                alignments.write(translated.alignment + "\n")
            if translated.difference:
                line = number + job.asked.line_offset
                differing, first = differing + 1, first or line
                if job.interactive:
                    warn(f"line {line:,}", f"placeholders differ: {translated.difference}")
            lines_bar.update()
    if differing and not job.interactive:
        log(f"{differing:,} of {number - done:,} lines: placeholders differ; first: line {first:,}")


@contextmanager
def _open_alignments(path: Path | None) -> Iterator[TextIO | None]:
    """Open a file that appears only if the block succeeds; yield None without a path."""
    if path is None:
        yield None
        return
    with (
        whole_file(path, is_named=True) as temporary,
        text_writer(FileIO(temporary, "w"), path) as file,
    ):
        yield file


@contextmanager
def _hint_at_resuming(file: Output) -> Iterator[None]:
    """Add a hint at --resume to an error that ends the block, if any lines are kept."""
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
