"""The formats that a trained model is exported to, one entry each, with what each can express.

A new format needs its name in ``config/choices.py``, an entry here, and a module that writes it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from transformer_cli.base.compression import write_text
from transformer_cli.base.errors import UsageError
from transformer_cli.config.choices import ExportFormat, Quantization
from transformer_cli.config.schema import Config
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import TrainedModel
from transformer_cli.text.protocol import Tokenizers
from transformer_cli.text.tokenizer import copy_tokenizers, load_text_sha256

_HERE = "transformer_cli.extensions.exchange"


@dataclass(frozen=True)
class Format:
    """A format, whose functions are imported when it is used."""

    reader: str  # the program that reads it, for messages
    writer: str  # function (run, trained model, path), and ``quantization`` if there is a choice
    package: str | None = None  # module that the writer needs
    extra: str | None = None  # what brings the package; None: every install has it
    suffix: str | None = None  # of the one file that it is; None: it is a directory
    quantization: Quantization | None = None  # the default; None: weights are float32
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By keys of ``model``: the settings that the reader can compute with, where not all."""
    check: str | None = None
    """Function (config, tokenizers) that refuses by a UsageError what else the reader has not."""


FORMATS: dict[ExportFormat, Format] = {
    "ctranslate2": Format(
        reader="CTranslate2",
        writer=f"{_HERE}.to_ctranslate2:write_ctranslate2",
        package="ctranslate2",
        quantization="float32",
    ),
    "onnx": Format(
        reader="ONNX Runtime",
        writer=f"{_HERE}.to_onnx:write_onnx",
        package="onnx",
        extra="export",
        values={"norm_kind": ("layernorm",)},  # torch's exporter knows no other
    ),
    "transformers": Format(
        reader="transformers",
        writer=f"{_HERE}.to_transformers:write_transformers",
        # What Marian and Pegasus are made of: neither has gates, nor learned positions.
        values={
            "norm_kind": ("layernorm",),
            "positions": ("sinusoidal",),
            "activation": ("relu", "gelu", "swish"),
        },
        check=f"{_HERE}.to_transformers:check_transformers",
    ),
    "argos": Format(
        reader="Argos Translate",
        writer=f"{_HERE}.to_ctranslate2:write_argos",
        package="ctranslate2",
        suffix=".argosmodel",
        quantization="int8",
        check=f"{_HERE}.to_ctranslate2:check_argos",
    ),
    "hub": Format(reader="transformer-cli", writer=f"{_HERE}.to_hub:write_hub"),
}


def check_expressible(name: ExportFormat, config: Config, tokenizers: Tokenizers) -> None:
    """Raise a UsageError, which says what would do, if a format's reader has no such model."""
    entry = FORMATS[name]
    for key, values in entry.values.items():
        value = getattr(config.model, key)
        if value not in values:
            known = " or ".join(", ".join(values).rsplit(", ", 1))
            problem = f"{entry.reader} has no such model; train with {known}"
            raise UsageError(f"--format {name}: model.{key}: {value}: {problem}")
    if entry.check is not None:
        resolve_name(entry.check)(config, tokenizers)


def describe_limits(config: Config, tokenizers: Tokenizers) -> str | None:
    """Return what exports of a model with reserved tokens lack; None: it has none of these."""
    if not tokenizers.reserved:
        return None
    refused = []
    for name in FORMATS:
        try:
            check_expressible(name, config, tokenizers)
        except UsageError:
            refused.append(name)
    return (
        f"{' and '.join(tokenizers.reserved)}: no export to "
        f"{' or '.join(refused)}; programs that search ctranslate2 or onnx themselves need this "
        "package's tokenizers"
    )


def write_format(
    name: ExportFormat,
    run: RunDirectory,
    trained: TrainedModel,
    path: Path,
    quantization: Quantization | None,
) -> None:
    """Write a model that ``check_expressible`` has passed into an empty directory, or a file.

    ``quantization`` is the type of the weights; None: the format's default.
    """
    entry = FORMATS[name]
    options = {"quantization": quantization or entry.quantization} if entry.quantization else {}
    resolve_name(entry.writer)(run, trained, path, **options)


# --- what several writers need --------------------------------------------------------------------


def write_tokenizer(run: RunDirectory, directory: Path) -> Path:
    """Write a run's tokenizers below an exported model; return their directory."""
    tokenizer = directory / run.tokenizer.name
    tokenizer.mkdir()
    copy_tokenizers(run.tokenizer, load_text_sha256(run.tokenizer), tokenizer)
    return tokenizer


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write an object, which is indented."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
