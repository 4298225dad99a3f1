"""The formats for exporting a trained model: what each one supports, and how it is written.

A format is an entry under "export format" in an extension's manifest. These are its keys:

- ``load``: the function (run, trained model, path) that writes the model into an empty directory,
- ``reader``: the name of the program that reads the format, for messages,
- ``package``: the module that the function needs, and ``extra``, the extra that installs it,
- ``quantization``: the default type of the weights, which the function takes as an argument;
  without this key, the user cannot choose a type,
- ``values``: the values of ``model`` settings that the reader supports, unless it supports all,
  e.g. ``norm: pre, post; tying: all``,
- ``check``: a function (config, tokenizers) that raises a UsageError for anything else that the
  reader does not support.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformer_cli.base import registry
from transformer_cli.base.errors import UsageError
from transformer_cli.base.text_files import write_text
from transformer_cli.config.schema import Config
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.protocol import Tokenizers
from transformer_cli.text.tokenizer import copy_tokenizers, load_manifest

INTERFACE = "export format"


def check_expressible(entry: registry.Entry, config: Config, tokenizers: Tokenizers) -> None:
    """Raise UsageError, with the fix, if a format's reader does not support the model."""
    for part in filter(None, entry.facts.get("values", "").split("; ")):
        key, _, values = part.partition(": ")
        value = getattr(config.model, key)
        if value not in values.split(", "):
            known = " or ".join(values.rsplit(", ", 1))
            problem = f"{entry.facts['reader']} does not support it; train with {known}"
            raise UsageError(f"--format {entry.name}: model.{key}: {value}: {problem}")
    if "check" in entry.facts:
        entry.load("check")(config, tokenizers)


def check_tokenizers(
    name: str, reader: str, is_supported: bool, config: Config, tokenizers: Tokenizers
) -> None:
    """Raise UsageError if a reader of SentencePiece models does not support the tokenizers.

    ``is_supported`` says whether it supports the kind of tokenizer.
    """
    obstacles = {
        **{
            f"{setting}: {reader} has no reserved tokens; {advice}": True
            for setting, advice in tokenizers.reserved.values()
        },
        f"tokenizer.kind: {config.tokenizer.kind}: {reader} supports only SentencePiece; "
        "train with sentencepiece": not is_supported,
        f"tokenizer.lowercase: true: {reader} does not lowercase; train with "
        "false": config.tokenizer.lowercase,
    }
    for obstacle, is_there in obstacles.items():
        if is_there:
            raise UsageError(f"--format {name}: {obstacle}")


# --- for several writers --------------------------------------------------------------------------


def write_tokenizer(run: RunDirectory, directory: Path) -> Path:
    """Copy a run's tokenizers into a subdirectory of ``directory``; return the subdirectory."""
    tokenizer = directory / run.tokenizer.name
    tokenizer.mkdir()
    copy_tokenizers(run.tokenizer, load_manifest(run.tokenizer).learned_from, tokenizer)
    return tokenizer


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a mapping as indented JSON."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
