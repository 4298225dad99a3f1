"""``transformer-cli export``."""

from pathlib import Path
from typing import Annotated

from transformer_cli.base.errors import UsageError
from transformer_cli.base.packages import import_extra
from transformer_cli.cli import options
from transformer_cli.cli.declaring import argument, option
from transformer_cli.cli.display import say
from transformer_cli.config.choices import ExportFormat, Quantization


def export(
    run: options.Run,
    directory: Annotated[
        Path,
        argument("DIR", "Where to write; new or empty. A new file, NAME.argosmodel, for argos."),
    ],
    format_: Annotated[ExportFormat, option(None, "Format.", "--format")],
    checkpoint: options.Checkpoint = "best",
    quantization: Annotated[
        Quantization | None,
        option(
            "TYPE",
            "Type of the weights, as in int8; ctranslate2 and argos only.  [default: float32; "
            "int8 for argos]",
        ),
    ] = None,
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
    from transformer_cli.base.writing import claim, remove_leftovers, whole_directory, whole_file
    from transformer_cli.extensions.exchange import formats
    from transformer_cli.runs.directory import RunDirectory
    from transformer_cli.runs.trained_model import load_weights_of, open_trained_model

    entry = formats.FORMATS[format_]
    if quantization is not None and entry.quantization is None:
        raise UsageError(
            f"--quantization {quantization}: {format_} has no such choice; leave it out, "
            "or use --format ctranslate2"
        )
    options.check_new(directory, "DIR", entry.suffix, [run])
    if entry.package is not None:  # before the work
        import_extra(entry.package, entry.extra, f"--format {format_}")
    run_directory = RunDirectory(run)
    target = directory.resolve()
    with claim(target):
        opened = open_trained_model(run_directory, checkpoint)
        formats.check_expressible(format_, opened.config, opened.tokenizers)
        trained = load_weights_of(opened)
        remove_leftovers(target.parent, others=[target.name])
        with (whole_file if entry.suffix else whole_directory)(target) as temporary:
            formats.write_format(format_, run_directory, trained, temporary, quantization)
    say(f"{directory}: {trained.checkpoint.name} of {run}, for {format_}")
