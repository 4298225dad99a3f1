"""Files of a model of transformers, which are not trusted: in a directory, or from the Hub."""

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

from transformer_cli.config.setting_tree import shorten
from transformer_cli.errors import ImportedModelError
from transformer_cli.files import open_regular
from transformer_cli.packages import import_extra

CONFIG, GENERATION = "config.json", "generation_config.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
TOKENIZER_FILES = ("source.spm", "target.spm", "vocab.json", "target_vocab.json")
SAFETENSORS, TORCH = "model.safetensors", "pytorch_model.bin"

# In bytes, ten times the largest of OPUS-MT.
_MAX_JSON_SIZE = 1 << 26
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


class SourceFiles:
    """Files of a directory, and the SHA-256 of those that were read."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.sha256: dict[str, str] = {}
        self._roots = [directory.resolve()]
        if directory.resolve().parent.name == "snapshots":
            # In the cache of the Hugging Face Hub, files are links to ../../blobs.
            self._roots.append(directory.resolve().parent.parent / "blobs")

    def has(self, name: str) -> bool:
        """Return whether there is a file of this name, or anything else."""
        return os.path.lexists(self.directory / name)

    def read_json(self, name: str) -> dict[str, Any]:
        """Return the JSON object in a file; raise an ImportedModelError if there is none."""
        try:
            content = json.loads(self.read(name, _MAX_JSON_SIZE))
        except (ValueError, RecursionError) as error:
            raise self.error(name, f"is not JSON ({error})") from error
        if not isinstance(content, dict):
            raise self.error(name, "is not a JSON object")
        return content

    def read(self, name: str, max_size: int) -> bytes:
        """Return the bytes of a file in the directory, and record their SHA-256."""
        path = self.directory / name
        target = Path(os.path.realpath(path))  # resolve() raises other errors at links in a loop
        if not any(target.is_relative_to(root) for root in self._roots):
            raise self.error(name, "is a link to a file elsewhere; copy it into the directory")
        try:
            with open_regular(path) as file:
                size = os.fstat(file.fileno()).st_size
                if size > max_size:
                    raise self.error(name, f"has {size:,} bytes, more than {max_size:,}")
                data = file.read(size + 1)
        except OSError as error:
            raise self.error(name, f"cannot be read ({error.strerror})") from error
        if data.startswith(_LFS_POINTER):
            raise self.error(name, "is a pointer of Git LFS; get the file with: git lfs pull")
        if len(data) != size:
            raise self.error(name, "changes while it is read; import again")
        self.sha256[name] = hashlib.sha256(data).hexdigest()
        return data

    def error(self, name: str, problem: str) -> ImportedModelError:
        """Return an error that names a file."""
        return ImportedModelError(f"{self.directory / name}: {problem}")


# --- the Hugging Face Hub -------------------------------------------------------------------------


def is_hub_name(source: str) -> bool:
    """Return whether ``source`` has the form of a model's name, as in 'owner/name'."""
    return _HUB_NAME.fullmatch(source) is not None


def fetch_settings(name: str, revision: str | None) -> tuple[Path, str]:
    """Fetch what tells a model's form into the Hub's cache; return the directory and the commit."""
    directory = _fetch(name, revision, [CONFIG, GENERATION, TOKENIZER_CONFIG])
    return directory, directory.name


def fetch_weights(name: str, commit: str) -> None:
    """Fetch the rest of a model's files of the same commit."""
    directory = _fetch(name, commit, [*TOKENIZER_FILES, SAFETENSORS])
    if not (directory / SAFETENSORS).exists():
        _fetch(name, commit, [TORCH])


def _fetch(name: str, revision: str | None, patterns: list[str]) -> Path:
    hub = import_extra("huggingface_hub", "hub", f"import {name}")
    try:
        return Path(hub.snapshot_download(name, revision=revision, allow_patterns=patterns))
    except Exception as error:  # whatever its layers raise: of the network, the Hub, the disk
        offline = (ConnectionError, TimeoutError, hub.errors.LocalEntryNotFoundError)
        is_offline = isinstance(error, offline)
        problem = "cannot be reached" if is_offline else "does not give it"
        cause: BaseException = error
        # What was raised first says the most in the fewest words.
        while is_offline and (earlier := cause.__cause__ or cause.__context__):
            cause = earlier
        reason = shorten(" ".join(str(cause).split()), 200) or type(cause).__name__
        raise ImportedModelError(
            f"{name}: no such directory here, and the Hugging Face Hub {problem} ({reason})"
        ) from None
