"""``transformer-cli import``."""

import os
from pathlib import Path
from typing import Annotated

import typer

from transformer_cli.cli import options
from transformer_cli.cli.display import log, say
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
        str | None,
        typer.Option(
            metavar="CODE", help="Source language.  [default: from the model's files or name]"
        ),
    ] = None,
    tgt_lang: Annotated[
        str | None,
        typer.Option(
            metavar="CODE", help="Target language.  [default: from the model's files or name]"
        ),
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
    _check_run(run, directory)

    from transformer_cli.importing.source import (
        SourceFiles,
        fetch_settings,
        fetch_weights,
        is_hub_name,
    )

    commit = None
    if not directory.is_dir():
        if directory.exists():
            raise UsageError(f"{source}: is a file; name its directory")
        if not is_hub_name(source):
            raise UsageError(
                f"{source}: there is no such directory; name one, or a model of the Hugging Face "
                "Hub, as in Helsinki-NLP/opus-mt-de-en"
            )
        directory, commit = fetch_settings(source, revision)
        log(f"{source}: commit {commit}; --revision {commit} gets the same again")

    from transformer_cli.importing.form import find_languages, read_form
    from transformer_cli.importing.run_writer import write_run

    files = SourceFiles(directory)
    form = read_form(files)
    path = directory.resolve()
    name = path.name if commit is None else source
    languages = find_languages(src_lang, tgt_lang, form.tokenizer, name)
    if commit is not None:
        fetch_weights(source, commit)
    recorded = path.as_posix() if commit is None else source
    write_run(files, form, languages, recorded, commit, run.resolve(), log)
    say(f"{run}: {source}, {languages[0]} to {languages[1]}")


def _check_run(run: Path, source: Path) -> None:
    """Make sure that a run can be made, whose parents need not be there yet.

    Raises:
        UsageError: it cannot.
    """
    parent = next(each for each in run.absolute().parents if os.path.lexists(each))
    if not parent.is_dir():
        raise UsageError(f"{run}: {parent} is no directory; give another name")
    if parent == run.absolute().parent:
        options.check_new_directory(run, "RUN")
    else:
        options.check_name(run, "RUN")
    if source.is_dir() and run.resolve().is_relative_to(source.resolve()):
        raise UsageError(f"{run}: lies in {source}, the model's directory; give a place elsewhere")
