"""The commands ``export``, which writes a model for other programs, and ``import``."""

import os
from pathlib import Path
from typing import Annotated

from transformer_cli.base import registry
from transformer_cli.base.errors import UsageError, did_you_mean
from transformer_cli.base.messages import log
from transformer_cli.base.packages import import_extra, lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import argument, option
from transformer_cli.cli.display import say
from transformer_cli.config.choices import Quantization
from transformer_cli.extensions.corpora.command import check_new

with lazy_imports():
    from transformer_cli.base import writing
    from transformer_cli.extensions.exchange import form as forms, formats, run_writer
    from transformer_cli.runs import directory as directories, trained_model

Language = "{} language.  [default: from the model's files or name]"
_FORMATS = registry.entries("export format")


def export(
    run: options.Run,
    directory: Annotated[Path, argument("DIR", "Output directory; must be new or empty.")],
    format_: Annotated[
        str,
        option(
            "|".join(_FORMATS),
            "Format to write.",
            "--format",
            autocompletion=lambda incomplete: [
                name for name in _FORMATS if name.startswith(incomplete)
            ],
        ),
    ],
    checkpoint: options.Checkpoint = "best",
    quantization: Annotated[
        Quantization | None,
        option("TYPE", "Type of the weights, e.g. int8; only for ctranslate2.  [default: float32]"),
    ] = None,
) -> None:
    """Write a trained model in a format for other programs.

    ctranslate2 is for CTranslate2, onnx for ONNX Runtime, transformers for Hugging Face's library,
    and hub for sharing with users of this program. DIR contains the model, tokenizers and settings.
    It is created only when the export is complete.

    \b
    Example:
      transformer-cli export runs/toy exported --format ctranslate2 --quantization int8
    """
    if (entry := registry.find(formats.INTERFACE, format_)) is None:
        hint = did_you_mean(format_, _FORMATS) or f"use one of {', '.join(_FORMATS)}"
        raise UsageError(f"--format {format_}: no such format is installed; {hint}")
    facts = entry.facts
    if quantization is not None and "quantization" not in facts:
        raise UsageError(
            f"--quantization {quantization}: {format_} does not support it; leave it out, "
            "or use --format ctranslate2"
        )
    check_new(directory, "DIR", runs=[run])
    if "package" in facts:  # fail before the work
        import_extra(facts["package"], facts.get("extra"), f"--format {format_}")
    source, target = directories.RunDirectory(run), directory.resolve()
    with writing.claim(target):
        opened = trained_model.open_trained_model(source, checkpoint)
        formats.check_expressible(entry, opened.config, opened.tokenizers)
        trained = trained_model.load_weights_of(opened)
        writing.remove_leftovers(target.parent, others=[target.name])
        default = facts.get("quantization")
        types = {"quantization": quantization or default} if default else {}
        with writing.whole_directory(target) as temporary:
            entry.load()(source, trained, temporary, **types)
    say(f"{directory}: {trained.checkpoint.name} of {run}, for {format_}")


def import_(
    source: Annotated[
        str,
        argument(
            "SOURCE", "Directory of a transformers model, or its name on the Hugging Face Hub."
        ),
    ],
    run: Annotated[Path, argument("RUN", "Run directory to create.")],
    revision: Annotated[
        str | None, option("REV", "Branch, tag or commit on the Hub.  [default: main]")
    ] = None,
    src_lang: Annotated[str | None, option("CODE", Language.format("Source"))] = None,
    tgt_lang: Annotated[str | None, option("CODE", Language.format("Target"))] = None,
) -> None:
    """Turn a Marian model in transformers' format, such as one from OPUS-MT, into a run.

    You can use the run like any other. To train it further, write a config with base:
    RUN/config.yaml, init: RUN and a data section. No code that comes with the model is run. RUN
    is created only when the import is complete.

    \b
    Example:
      transformer-cli import Helsinki-NLP/opus-mt-de-en runs/opus
    """
    directory, commit = Path(source), None
    is_on_hub = _check_source(source, revision)
    _check_run(run, directory)
    if is_on_hub:
        directory = forms.fetch(source, revision, forms.SETTINGS)
        commit = directory.name
        log(f"{source}: commit {commit}; to get it again, use --revision {commit}")
    files = forms.ModelFiles(directory)
    form = forms.read_form(files)
    path = directory.resolve()
    name = path.name if commit is None else source
    languages = forms.find_languages(src_lang, tgt_lang, form.tokenizer, name)
    if commit is not None:
        fetched = forms.fetch(source, commit, [*forms.TOKENIZER_FILES, forms.SAFETENSORS])
        if not (fetched / forms.SAFETENSORS).exists():
            forms.fetch(source, commit, [forms.TORCH])
    recorded = path.as_posix() if commit is None else source
    run_writer.write_run(files, form, languages, recorded, commit, run.resolve())
    say(f"{run}: {source}, {languages[0]} to {languages[1]}")


def _check_source(source: str, revision: str | None) -> bool:
    """Return False if ``source`` is a directory, or True if it may name a model on the Hub."""
    directory = Path(source)
    if directory.is_dir():
        if revision is None:
            return False
        raise UsageError(f"--revision {revision}: {source} is a directory; leave the option out")
    if directory.exists():
        raise UsageError(f"{source}: is a file; name its directory")
    if not forms.HUB_NAME.fullmatch(source):
        raise UsageError(
            f"{source}: there is no such directory; name one, or a model on the Hugging Face "
            "Hub, for example Helsinki-NLP/opus-mt-de-en"
        )
    return True


def _check_run(run: Path, source: Path) -> None:
    """Raise UsageError if the run cannot be created; its parent directories may be missing."""
    parent = next(path for path in run.absolute().parents if os.path.lexists(path))
    if not parent.is_dir():
        raise UsageError(f"{run}: {parent} is not a directory; give another name")
    if parent == run.absolute().parent:
        check_new(run, "RUN")
    if source.is_dir() and run.resolve().is_relative_to(source.resolve()):
        raise UsageError(f"{run}: is inside {source}, the model's directory; choose another place")
