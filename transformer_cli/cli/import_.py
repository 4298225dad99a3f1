"""``transformer-cli import``."""

from pathlib import Path
from typing import Annotated

import typer

from transformer_cli.cli import options
from transformer_cli.cli.display import log
from transformer_cli.errors import UsageError


def import_(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="Directory of a model of transformers, or its name on the Hugging Face Hub.",
            show_default=False,
        ),
    ],
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="Run directory to write.", show_default=False),
    ],
    revision: Annotated[
        str | None,
        typer.Option(metavar="REV", help="Branch, tag or commit on the Hub.  [default: main]"),
    ] = None,
    src_lang: Annotated[
        str | None, typer.Option(metavar="CODE", help="Source language.  [default: as it says]")
    ] = None,
    tgt_lang: Annotated[
        str | None, typer.Option(metavar="CODE", help="Target language.  [default: as it says]")
    ] = None,
    version: options.Version = False,
) -> None:
    """Make a run of a Marian model of transformers, such as OPUS-MT's.

    The run translates, and is evaluated, compared and exported like any other. Training goes on
    from it in a run of its own, whose configuration has base: RUN/config.yaml, init: RUN and a
    data section. It needs no transformers, and never runs code that comes with a model. It appears
    when it is complete.

    \b
    Example:
      transformer-cli import Helsinki-NLP/opus-mt-de-en runs/opus
    """
    directory = Path(source)
    if revision is not None and directory.is_dir():
        raise UsageError(f"--revision {revision}: {source} is a directory; leave the option out")
    run.absolute().parent.mkdir(parents=True, exist_ok=True)
    options.check_new_directory(run, "RUN")

    from transformer_cli.importing.hub import fetch_model, is_hub_name

    commit = None
    if not directory.is_dir():
        if not is_hub_name(source):
            raise UsageError(
                f"{source}: there is no such directory; name one, or a model of the Hugging Face "
                "Hub, as in Helsinki-NLP/opus-mt-de-en"
            )
        directory, commit = fetch_model(source, revision)
        log(f"{source}: commit {commit}; --revision {commit} gets the same again")

    from transformer_cli.importing.languages import find_languages
    from transformer_cli.importing.run_writer import Source, read_model, read_settings, write_run
    from transformer_cli.importing.source_files import SourceFiles

    files = SourceFiles(directory)
    settings = read_settings(files)
    name = directory.resolve().name if commit is None else source
    languages = find_languages(src_lang, tgt_lang, settings, name)
    model = read_model(files, settings, languages, log)
    recorded = directory.resolve().as_posix() if commit is None else source
    write_run(model, Source(recorded, files, commit), run.resolve())
    typer.echo(f"{run}: {source}, {languages[0]} to {languages[1]}")
