"""``transformer-cli export``."""

from pathlib import Path
from typing import Annotated

import typer

from transformer_cli.cli import options
from transformer_cli.cli.display import say
from transformer_cli.config.choices import ExportFormat, Quantization
from transformer_cli.errors import UsageError


def export(
    run: options.Run,
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Where to write; new or empty. A new file, NAME.argosmodel, for argos.",
            show_default=False,
        ),
    ],
    format_: Annotated[ExportFormat, typer.Option("--format", help="Format.", show_default=False)],
    checkpoint: options.Checkpoint = "best",
    quantization: Annotated[
        Quantization | None,
        typer.Option(
            help="Type of the weights, as in int8; ctranslate2 and argos only.  [default: float32; "
            "int8 for argos]",
            metavar="TYPE",
        ),
    ] = None,
    version: options.Version = False,
) -> None:
    """Write a trained model in a format that other programs read.

    ctranslate2 is for fast translation on CPUs and GPUs, onnx for ONNX Runtime, transformers for
    programs that use Hugging Face's library, argos for Argos Translate and LibreTranslate, hub for
    sharing with users of this program. DIR gets all that translation needs: tokenizers and
    settings too. It appears when it is complete.

    \b
    Example:
      transformer-cli export runs/toy exported --format ctranslate2 --quantization int8
    """
    if quantization is not None and format_ not in ("ctranslate2", "argos"):
        raise UsageError(
            f"--quantization {quantization}: {format_} has no such choice; leave it out, "
            "or use --format ctranslate2"
        )
    if format_ == "argos":
        options.check_new_file(directory, "DIR", ".argosmodel")
    else:
        options.check_new_directory(directory, "DIR")

    from transformer_cli.files import remove_leftovers, whole_directory
    from transformer_cli.packages import import_extra
    from transformer_cli.runs.directory import RunDirectory
    from transformer_cli.runs.trained_model import load_weights_of, open_trained_model

    if format_ not in ("hub", "transformers"):
        module = "onnx" if format_ == "onnx" else "ctranslate2"
        extra = "export" if format_ == "onnx" else None
        import_extra(module, extra, f"--format {format_}")  # before the work
    run_directory = RunDirectory(run)
    opened = open_trained_model(run_directory, checkpoint)
    if format_ == "transformers":
        from transformer_cli.export.transformers import check_transformers

        check_transformers(opened.config, opened.tokenizers)
    elif format_ == "argos":
        from transformer_cli.export.argos import check_argos, write_argos

        check_argos(opened.config, opened.tokenizers)
    trained = load_weights_of(opened)
    target = directory.resolve()
    remove_leftovers(target.parent, others=[target.name])
    if format_ == "argos":
        write_argos(run_directory, trained, quantization or "int8", directory)
        say(f"{directory}: {trained.checkpoint.name} of {run}, for {format_}")
        return
    with whole_directory(target) as temporary:
        if format_ == "ctranslate2":
            from transformer_cli.export.ctranslate2 import write_ctranslate2

            write_ctranslate2(run_directory, trained, quantization or "float32", temporary)
        elif format_ == "onnx":
            from transformer_cli.export.onnx import write_onnx

            write_onnx(run_directory, trained, temporary)
        elif format_ == "transformers":
            from transformer_cli.export.transformers import write_transformers

            write_transformers(run_directory, trained, temporary)
        else:
            from transformer_cli.export.hub import write_hub

            write_hub(run_directory, trained, temporary)
    say(f"{directory}: {trained.checkpoint.name} of {run}, for {format_}")
