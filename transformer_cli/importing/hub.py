"""Models of the Hugging Face Hub."""

import re
from pathlib import Path

from transformer_cli.config.setting_tree import shorten
from transformer_cli.errors import ImportedModelError
from transformer_cli.importing.model_form import CONFIG, GENERATION
from transformer_cli.importing.tables import SETTINGS
from transformer_cli.importing.tensors import INDEX, SAFETENSORS, TORCH
from transformer_cli.packages import import_extra

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_TOKENIZER = ("source.spm", "target.spm", "vocab.json", "target_vocab.json")
_SETTINGS = [CONFIG, GENERATION, SETTINGS]
_WEIGHTS = (SAFETENSORS, INDEX, "model-*.safetensors")


def is_hub_name(source: str) -> bool:
    """Return whether ``source`` has the form of a model's name, as in 'owner/name'."""
    return _NAME.fullmatch(source) is not None


def fetch_settings(name: str, revision: str | None) -> tuple[Path, str]:
    """Fetch what tells a model's form into the Hub's cache; return the directory and the commit.

    Args:
        name: as in 'Helsinki-NLP/opus-mt-de-en'.
        revision: branch, tag or commit; None: the main branch.

    Raises:
        MissingExtraError: huggingface_hub is not installed.
        ImportedModelError: the model cannot be had.
    """
    directory = _fetch(name, revision, _SETTINGS)
    return directory, directory.name


def fetch_weights(name: str, commit: str) -> None:
    """Fetch the rest of a model's files to those of the same commit.

    Raises:
        MissingExtraError, ImportedModelError: as ``fetch_settings``.
    """
    directory = _fetch(name, commit, [*_TOKENIZER, *_WEIGHTS])
    if not any((directory / each).exists() for each in (SAFETENSORS, INDEX)):
        _fetch(name, commit, [TORCH])


def _fetch(name: str, revision: str | None, patterns: list[str]) -> Path:
    hub = import_extra("huggingface_hub", "hub", f"import {name}")
    try:
        return Path(hub.snapshot_download(name, revision=revision, allow_patterns=patterns))
    except Exception as error:  # whatever its layers raise: of the network, the Hub, the disk
        offline = (ConnectionError, TimeoutError, hub.errors.LocalEntryNotFoundError)
        is_offline = isinstance(error, offline)
        problem = "cannot be reached" if is_offline else "does not give it"
        cause = _first_cause(error) if is_offline else error
        reason = shorten(" ".join(str(cause).split()), 200) or type(cause).__name__
        raise ImportedModelError(
            f"{name}: no such directory here, and the Hugging Face Hub {problem} ({reason})"
        ) from None


def _first_cause(error: BaseException) -> BaseException:
    """Return what was raised first, which says the most in the fewest words."""
    while cause := error.__cause__ or error.__context__:
        error = cause
    return error
