"""The formats that a trained model is exported to, one entry each, with what each can express.

A new format needs its name in ``config/choices.py``, an entry here, and a module that writes it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name

from transformer_cli.config.choices import ExportFormat, Quantization
from transformer_cli.config.schema import Config
from transformer_cli.errors import UsageError
from transformer_cli.inference.ctranslate2_engine import SUPPORTED
from transformer_cli.packages import import_extra
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import TrainedModel
from transformer_cli.text.protocol import Tokenizers

_HERE = "transformer_cli.export"


@dataclass(frozen=True)
class Format:
    """A format, whose functions are imported when it is used."""

    reader: str
    """The program that reads it, for messages."""
    writer: str
    """Function (run, trained model, path), and ``quantization`` if there is a choice."""
    package: str | None = None
    """Module that the writer needs."""
    extra: str | None = None
    """Extra that brings the package; None: every install has it."""
    suffix: str | None = None
    """Of the one file that it is; None: it is a directory."""
    quantization: Quantization | None = None
    """The default type of the weights; None: they are float32."""
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By keys of ``model``: the settings that the reader can compute with, where not all."""
    check: str | None = None
    """Function (config, tokenizers) that refuses by a UsageError what else the reader has not."""


FORMATS: dict[ExportFormat, Format] = {
    "ctranslate2": Format(
        reader="CTranslate2",
        writer=f"{_HERE}.ctranslate2:write_ctranslate2",
        package="ctranslate2",
        quantization="float32",
        values=SUPPORTED,
    ),
    "onnx": Format(
        reader="ONNX Runtime",
        writer=f"{_HERE}.onnx:write_onnx",
        package="onnx",
        extra="export",
        values={"norm_kind": ("layernorm",)},  # torch's exporter knows no other
    ),
    "transformers": Format(
        reader="transformers",
        writer=f"{_HERE}.transformers:write_transformers",
        # What Marian and Pegasus are made of: neither has gates, nor learned positions.
        values={
            "norm_kind": ("layernorm",),
            "positions": ("sinusoidal",),
            "activation": ("relu", "gelu", "swish"),
        },
        check=f"{_HERE}.transformers:check_transformers",
    ),
    "argos": Format(
        reader="Argos Translate",
        writer=f"{_HERE}.ctranslate2:write_argos",
        package="ctranslate2",
        suffix=".argosmodel",
        quantization="int8",
        values=SUPPORTED,
        check=f"{_HERE}.ctranslate2:check_argos",
    ),
    "hub": Format(reader="transformer-cli", writer=f"{_HERE}.hub:write_hub"),
}


def import_package(name: ExportFormat) -> None:
    """Raise a MissingExtraError if the package that a format needs is not installed."""
    if package := FORMATS[name].package:
        import_extra(package, FORMATS[name].extra, f"--format {name}")


def check_expressible(name: ExportFormat, config: Config, tokenizers: Tokenizers) -> None:
    """Check that a format's reader can compute with a model.

    Raises:
        UsageError: it cannot; the message names the setting, and what would do.
    """
    entry = FORMATS[name]
    for key, values in entry.values.items():
        value = getattr(config.model, key)
        if value not in values:
            *others, last = values
            known = f"{', '.join(others)} or {last}" if others else last
            raise UsageError(
                f"--format {name}: model.{key}: {value}: {entry.reader} has no such model; "
                f"train with {known}"
            )
    if entry.check is not None:
        resolve_name(entry.check)(config, tokenizers)


def write_format(
    name: ExportFormat,
    run: RunDirectory,
    trained: TrainedModel,
    path: Path,
    quantization: Quantization | None,
) -> None:
    """Write a model that ``check_expressible`` has passed.

    Args:
        name: of the format.
        run: where the tokenizers' files and the measurements lie.
        trained: what was read from it.
        path: of an empty directory, or of the file if the format is one.
        quantization: type of the weights; None: the format's default, or there is no choice.
    """
    entry = FORMATS[name]
    options = {"quantization": quantization or entry.quantization} if entry.quantization else {}
    resolve_name(entry.writer)(run, trained, path, **options)
