"""The command ``transformer-cli export``, which writes a model for other programs."""

from pathlib import Path
from typing import Annotated

from transformer_cli.base import registry
from transformer_cli.base.errors import UsageError, did_you_mean
from transformer_cli.base.packages import import_extra, lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import argument, option
from transformer_cli.cli.display import say
from transformer_cli.config.choices import Quantization
from transformer_cli.extensions.corpora.command import check_new

with lazy_imports():
    from transformer_cli.base import writing
    from transformer_cli.extensions.exchange import formats
    from transformer_cli.runs import directory as directories, trained_model

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
