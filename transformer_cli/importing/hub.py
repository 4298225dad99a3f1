"""Models of the Hugging Face Hub."""

import re
from pathlib import Path

from transformer_cli.errors import ImportedModelError
from transformer_cli.extras import import_extra
from transformer_cli.importing.model_form import CONFIG, GENERATION
from transformer_cli.importing.tables import SETTINGS
from transformer_cli.importing.tensors import INDEX, SAFETENSORS, TORCH

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_TOKENIZER = ("source.spm", "target.spm", "vocab.json", "target_vocab.json")
_FILES = [CONFIG, GENERATION, SETTINGS, *_TOKENIZER, SAFETENSORS, INDEX, "model-*.safetensors"]


def is_hub_name(source: str) -> bool:
    """Return whether ``source`` has the form of a model's name, as in 'owner/name'."""
    return _NAME.fullmatch(source) is not None


def fetch_model(name: str, revision: str | None) -> tuple[Path, str]:
    """Fetch a model's files into the Hub's cache; return their directory and the commit.

    Args:
        name: as in 'Helsinki-NLP/opus-mt-de-en'.
        revision: branch, tag or commit; None: the main branch.

    Raises:
        MissingExtraError: huggingface_hub is not installed.
        ImportedModelError: the model cannot be had.
    """
    hub = import_extra("huggingface_hub", "hub", f"import {name}")
    try:
        directory = Path(hub.snapshot_download(name, revision=revision, allow_patterns=_FILES))
        commit = directory.name
        if not any((directory / each).exists() for each in (SAFETENSORS, INDEX)):
            hub.snapshot_download(name, revision=commit, allow_patterns=[TORCH])
    except Exception as error:  # whatever its layers raise: of the network, the Hub, the disk
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ImportedModelError(
            f"{name}: no such directory here, and the Hugging Face Hub does not give it ({reason})"
        ) from None
    return directory, commit
