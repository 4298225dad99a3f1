"""``transformer-cli translate``."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice, tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, TextIO

import typer

from transformer_cli.cli import options
from transformer_cli.cli.display import bar, log, warn
from transformer_cli.config.choices import DecodingErrors, EngineName
from transformer_cli.errors import InputError, TransformerCliError, UsageError
from transformer_cli.ranks import Ranks

if TYPE_CHECKING:
    from tqdm import tqdm

    from transformer_cli.inference.output import Output


def translate(
    run: options.Run,
    input_: Annotated[
        Path, typer.Option("--input", "-i", metavar="FILE", help="Text, one sentence a line.")
    ] = Path("-"),
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Translations, line by line.")
    ] = Path("-"),
    checkpoint: options.Checkpoint = "best",
    beam_size: options.BeamSize = None,
    batch_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Source tokens in a batch, times the beam.  [default: the run's]",
        ),
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Most tokens of a translation.  [default: by its source]"
        ),
    ] = None,
    errors: Annotated[
        DecodingErrors,
        typer.Option(help="Of bytes that are not UTF-8: refuse them, or write U+FFFD for them."),
    ] = "strict",
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with what an interrupted translation of -i into -o did."
        ),
    ] = False,
    engine: Annotated[
        EngineName,
        typer.Option(help="What searches; auto is torch, or CTranslate2 where RUN is exported."),
    ] = "auto",
    device: options.Device = "auto",
    precision: options.Precision = "auto",
    threads: options.Threads = None,
    version: options.Version = False,
) -> None:
    """Translate text, one sentence a line; line N in is line N out.

    Reads standard input and writes standard output unless told otherwise (- means these too).
    Files of any length are translated in constant memory; an output file appears when it is whole,
    and until then the translations are in FILE.partial.

    \b
    Example:
      transformer-cli translate runs/toy -i captions.de -o captions.en
    """
    from transformer_cli.data.corpus import decode_lines
    from transformer_cli.export.engines import load_translator
    from transformer_cli.files import is_stream
    from transformer_cli.inference.output import output_file
    from transformer_cli.inference.translator import CHUNK_LINES
    from transformer_cli.model.device import choose_device, use_threads

    if str(output) != "-":
        options.check_output(output)
    to_stream = str(output) == "-" or is_stream(output)
    has_files = not to_stream and str(input_) != "-" and not is_stream(input_)
    if resume and not has_files:
        raise UsageError("translate: --resume needs files; name them with -i and -o")
    ranks = Ranks.of_environment()
    if ranks.size > 1 and not has_files:
        raise UsageError("translate: several processes need files; name them with -i and -o")
    use_threads(threads)
    torch_device = choose_device(device, ranks)
    with _opened(input_) as source, ranks.joined(torch_device) as ranks:
        translator = load_translator(run, engine, checkpoint, torch_device, precision).searching(
            beam_size, batch_tokens, max_length
        )
        interactive = source.isatty()
        name = "standard input" if str(input_) == "-" else str(input_)
        lines = decode_lines(_prompted(source) if interactive else source, name, errors)
        chunk_lines = 1 if interactive else CHUNK_LINES

        def translated(first_line: int) -> Iterator[tuple[str, str]]:
            """Each line that is left, with its translation."""
            sources, remembered = tee(lines)
            translations = translator.translate_stream(
                sources, chunk_lines, first_line, partial(warn, name), ranks
            )
            return zip(remembered, translations, strict=False)

        if to_stream:
            _to_stream(output, translated(1), flushing=interactive)
        elif ranks.leads:
            terms = {**translator.terms, "errors": errors}
            with (
                output_file(output, terms, chunk_lines * ranks.size, has_files) as file,
                _saying_how(file),
            ):
                if resume:
                    file.go_on(lines)
                else:
                    file.begin()
                ranks.sum([file.kept])
                _to_file(file, translated(file.kept + 1))
        else:
            (kept,) = ranks.sum([0])  # as the leading one has found
            for _ in translated(1 + sum(1 for _ in islice(lines, int(kept)))):
                pass


def _to_stream(path: Path, translated: Iterable[tuple[str, str]], flushing: bool) -> None:
    with (
        _stream(path) as stream,
        # A bar and translations on one terminal would get in each other's way.
        _bar(hidden=stream.isatty()) as lines_bar,
    ):
        for _, translation in translated:
            stream.write(translation + "\n")
            lines_bar.update()
            if flushing:
                stream.flush()


def _to_file(file: "Output", translated: Iterable[tuple[str, str]]) -> None:
    with _bar(initial=file.kept) as lines_bar:
        for line, translation in translated:
            file.write(line, translation)
            lines_bar.update()


def _bar(initial: int = 0, hidden: bool = False) -> "tqdm[Any]":
    return bar(None, "translating", " lines", initial, hidden)


@contextmanager
def _saying_how(file: "Output") -> Iterator[None]:
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


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    if str(path) == "-":
        if sys.stdin is None:  # as after `<&-` in a shell
            raise InputError("standard input is closed; name a file with -i")
        yield sys.stdin.buffer
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; check -i") from error
    with file:
        yield file


@contextmanager
def _stream(path: Path) -> Iterator[TextIO]:
    """Standard output, or a device or a pipe."""
    if str(path) == "-":
        if sys.stdout is None:
            raise InputError("standard output is closed; name a file with -o")
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
        try:
            yield sys.stdout
            sys.stdout.flush()
        except OSError as error:
            # What is still buffered goes nowhere, or Python would complain when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            # Whoever read the output may have had enough, as in `translate … | head -1`.
            if not isinstance(error, BrokenPipeError):
                raise
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        yield file


def _prompted(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines that a person types, asked for on stderr."""
    log("one sentence a line; Ctrl-D ends")
    remaining = iter(lines)
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        line = next(remaining, None)
        if line is None:
            print(file=sys.stderr)
            return
        yield line
