"""The layout of a model exported for the Hugging Face Hub.

The directory contains

- ``config.json``: the type of the model, the settings of its run, and the SHA-256 of the weights
  and of tokenizer.json, which contains the SHA-256 of the other tokenizer files,
- ``model.safetensors``: the weights,
- ``tokenizer/``: the tokenizers, as in a run,
- ``README.md``: the model card, for people.

Other files, such as Git's, are ignored.
"""

from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from transformer_cli.base.errors import CheckpointError, RunError
from transformer_cli.base.files import read_small
from transformer_cli.base.locations import open_regular
from transformer_cli.config.schema import Config
from transformer_cli.config.setting_tree import find_node, parse, values
from transformer_cli.config.validation import validate_as
from transformer_cli.config.yaml import MAX_YAML_BYTES
from transformer_cli.runs.checkpoint import MODEL, Checkpoint
from transformer_cli.text.tokenizer import fingerprint

CONFIG, CARD, TOKENIZER = "config.json", "README.md", "tokenizer"
MODEL_TYPE: Literal["transformer-cli"] = "transformer-cli"
LFS_POINTER = b"version https://git-lfs.github.com/spec/"


class FileHashes(BaseModel):
    """The SHA-256 of the weights, and that of tokenizer.json, which covers the tokenizer files."""

    model_config = ConfigDict(strict=True)

    weights: str
    tokenizer: str


class HubConfig(BaseModel):
    """The keys of config.json except ``settings``; other programs may add more keys."""

    model_config = ConfigDict(strict=True)

    model_type: Literal["transformer-cli"]
    format: Literal[1]
    sha256: FileHashes


class HubModel:
    """A model exported for the Hugging Face Hub, as an ``ExportedModel`` (runs/directory.py)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record = path / CONFIG

    def load_config(self) -> Config:
        return read_hub_config(self.path)[1]

    def open_weights(self) -> Checkpoint:
        config, tokenizer = read_hub_config(self.path)[0], self.path / TOKENIZER
        if fingerprint(tokenizer) != config.sha256.tokenizer:
            raise CheckpointError(
                f"{tokenizer}: not the tokenizer that {CONFIG} records; get the model again"
            )
        return Checkpoint(self.path, {MODEL: config.sha256.weights}, "get the model again")


def read_hub_config(directory: Path) -> tuple[HubConfig, Config]:
    """Read and check config.json; return its keys and the run's settings."""
    for path in (directory / MODEL, *sorted((directory / TOKENIZER).glob("*"))):
        with suppress(OSError), open_regular(path) as file:  # reading it later reports the error
            if file.read(len(LFS_POINTER)) == LFS_POINTER:
                raise RunError(
                    f"{path}: is only a Git LFS pointer; get the file with: git lfs pull"
                )
    path = directory / CONFIG
    try:
        text = read_small(path, MAX_YAML_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RunError(f"{path}: cannot be read: {reason}; get the model again") from error
    root = parse(text, str(path))  # JSON is YAML, and our YAML parser knows the lines
    settings, found = find_node(root, ("settings",)), values(root)
    keys = found if settings is None and isinstance(found, dict) else {}
    # Both exports record our version, but only the Hub format has our model_type.
    if "transformer_cli_version" in keys and keys.get("model_type") != MODEL_TYPE:
        raise RunError(
            f"{directory}: was exported for transformers; name the run that it was exported from"
        )
    if keys.get("model_type") == "marian":
        raise RunError(
            f"{directory}: is a transformers model, not a run; import it with: "
            f"transformer-cli import {directory} RUN"
        )
    if settings is None or not isinstance(settings.value, dict):
        raise RunError(f"{path}: has no settings, so transformer-cli did not export this model")
    try:
        hub_config = HubConfig.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise RunError(
            f"{path}: {key}: {first['msg']}; the model is from another program, or "
            "from a later version of transformer-cli"
        ) from error
    return hub_config, validate_as(Config, settings)
