"""``transformer-cli translate``."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, TextIO

import typer

from transformer_cli.cli import options
from transformer_cli.cli.display import bar, log
from transformer_cli.errors import InputError


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
    device: options.Device = "auto",
    precision: options.Precision = "auto",
    threads: options.Threads = None,
    version: options.Version = False,
) -> None:
    """Translate text, one sentence a line; line N in is line N out.

    Reads standard input and writes standard output unless told otherwise (- means these too).
    Files of any length are translated in constant memory; an output file appears when it is whole.

    \b
    Example:
      transformer-cli translate runs/toy -i captions.de -o captions.en
    """
    from transformer_cli.data.corpus import decode_lines
    from transformer_cli.inference.translator import CHUNK_LINES, Translator
    from transformer_cli.model.device import choose_device, choose_precision, use_threads
    from transformer_cli.runs.directory import RunDirectory

    if str(output) != "-":
        options.check_output(output)
    use_threads(threads)
    torch_device = choose_device(device)
    with _opened(input_) as source:
        translator = Translator.load(
            RunDirectory(run), checkpoint, torch_device, choose_precision(precision, torch_device)
        ).searching(beam_size, batch_tokens, max_length)
        interactive = source.isatty()
        name = "standard input" if str(input_) == "-" else str(input_)
        lines = decode_lines(_prompted(source) if interactive else source, name)
        chunk_lines = 1 if interactive else CHUNK_LINES
        with (
            _written(output) as target,
            # A bar and translations on one terminal would get in each other's way.
            bar(None, "translating", " lines", hidden=target.isatty()) as lines_bar,
        ):
            for translation in translator.translate_stream(lines, chunk_lines):
                target.write(translation + "\n")
                lines_bar.update()
                if interactive:
                    target.flush()


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
def _written(path: Path) -> Iterator[TextIO]:
    from transformer_cli.files import whole_file

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
    with whole_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
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
