"""``transformer-cli translate``."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from transformer_cli.cli import options
from transformer_cli.cli.streams import opened, prompted
from transformer_cli.config.choices import DecodingErrors, EngineName
from transformer_cli.errors import UsageError
from transformer_cli.ranks import Ranks


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
    n_best: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Write the N best with their scores, as JSON; widens the beam."
        ),
    ] = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="Write the best with its score, as JSON.")
    ] = False,
    prefix_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What each translation starts with: whole words."),
    ] = None,
    alignments: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write which words go together, as in 0-0 1-2."),
    ] = None,
    replace_unk: Annotated[
        bool,
        typer.Option("--replace-unk", help="Take unknown words from the source (word models)."),
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
    and until then the translations are in FILE.partial. docs/translating.md shows all of this.

    \b
    Example:
      transformer-cli translate runs/toy -i data/toy/test.de -o test.en
    """
    from transformer_cli.cli.translating import Job, Places, work
    from transformer_cli.data.corpus import decode_lines
    from transformer_cli.export.engines import load_translator
    from transformer_cli.inference import stream
    from transformer_cli.model.device import choose_device, use_threads

    if n_best is not None and beam_size is not None and n_best > beam_size:
        raise UsageError(
            f"translate: a beam of {beam_size} does not hold the {n_best} best; raise --beam-size, "
            "or leave it out"
        )
    places = Places(input_, output, prefix_file, alignments)
    ranks = Ranks.of_environment()
    places.check(resume, ranks)
    use_threads(threads)
    torch_device = choose_device(device, ranks)
    with ExitStack() as stack:
        source = stack.enter_context(opened(input_))
        prefixes = None
        if prefix_file is not None:
            raw = stack.enter_context(opened(prefix_file, "--prefix-file"))
            prefixes = decode_lines(raw, str(prefix_file), errors)
        ranks = stack.enter_context(ranks.joined(torch_device))
        needs_torch = {
            "--prefix-file": prefix_file is not None,
            "--alignments": alignments is not None,
            "--replace-unk": replace_unk,
        }
        translator = load_translator(
            run,
            engine,
            checkpoint,
            torch_device,
            precision,
            [option for option, is_asked in needs_torch.items() if is_asked],
        ).searching(beam_size, batch_tokens, max_length)
        if n_best is not None and n_best > translator.decoding.beam_size:
            translator = translator.searching(beam_size=n_best)
        if replace_unk:
            translator = translator.replacing_unknown()
        interactive = source.isatty()
        lines = decode_lines(prompted(source) if interactive else source, places.name, errors)
        form = stream.Form(n_best or (1 if scores else None), linked=alignments is not None)
        chunk_lines = 1 if interactive else stream.CHUNK_LINES
        job = Job(translator, form, lines, prefixes, places, chunk_lines, ranks)
        work(job, {"errors": errors}, resume, flushing=interactive)
