"""A trained model as CTranslate2 reads it: converted once, and kept in its run.

A conversion is named after the type of its weights and what it was made of, and appears by one
rename. There is one a type: a new one replaces that of another checkpoint.
"""

import hashlib
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from transformer_cli.config.choices import Quantization
from transformer_cli.data.checksummed_json import read_checksummed, write_checksummed
from transformer_cli.errors import CheckpointError
from transformer_cli.extras import import_extra
from transformer_cli.files import (
    remove_directory,
    remove_leftovers,
    sha256,
    whole_directory,
)
from transformer_cli.runs.checkpoint import MODEL
from transformer_cli.runs.contents import CONVERTED_SUMS
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import OpenedModel, load_weights_of

FORMAT = 1
"""Of what ``write_model`` writes: raise it where the same weights are converted otherwise."""

Engine = TypeVar("Engine")

_VOCABULARIES = {"shared_vocabulary.json", "target_vocabulary.json"}

# Temporary names tell processes apart, and not the threads of one.
_CONVERTING = Lock()


class _Sums(BaseModel):
    """Schema of the file that has the SHA-256 of the others, by name."""

    model_config = ConfigDict(strict=True)

    files: dict[str, str]


def open_converted(
    run: RunDirectory,
    opened: OpenedModel,
    quantization: Quantization,
    open_directory: Callable[[Path], Engine],
) -> Engine:
    """Open the converted model that is kept, or one that is made now.

    Where it cannot be kept, as on a disk that is read-only, it is made in a temporary directory.

    Args:
        run: where it is kept, but not beside a shared model, whose directory is not ours.
        opened: what is converted.
        quantization: type of the weights.
        open_directory: opens the directory of a converted model.

    Raises:
        CheckpointError: the weights are damaged.
        MissingExtraError: CTranslate2 is not installed.
        OSError: there is no room for it.
    """
    kept = run.converted / f"{quantization}-{_name(opened)}"
    if is_intact(kept) or _keep(run, opened, quantization, kept):
        with suppress(CheckpointError):  # a process that keeps another one has just removed it
            return open_directory(kept)
    with TemporaryDirectory() as directory:
        _write(opened, quantization, Path(directory))
        return open_directory(Path(directory))


def is_intact(directory: Path) -> bool:
    """Return whether all files of a kept conversion are as they were written."""
    sums = read_checksummed(directory / CONVERTED_SUMS, _Sums)
    if sums is None or not _VOCABULARIES & sums.files.keys() or "model.bin" not in sums.files:
        return False
    try:
        return all(sha256(directory / name) == expected for name, expected in sums.files.items())
    except OSError:
        return False


def _name(opened: OpenedModel) -> str:
    # The manifest also changes where the weights do not, as a step is validated.
    made_of = [
        str(FORMAT),
        import_extra("ctranslate2", None, "CTranslate2's search").__version__,
        opened.checkpoint.files.get(MODEL, ""),
        opened.tokenizer_sum,
        opened.config.model.model_dump_json(),
    ]
    return hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:16]


def _keep(run: RunDirectory, opened: OpenedModel, quantization: Quantization, kept: Path) -> bool:
    """Convert the model into ``kept``, and remove others of the type; False if it cannot be kept.

    Several processes may do so at once: one's rename succeeds.
    """
    # A link in a run from elsewhere could make us delete any directory.
    if run.is_hub_model or run.converted.is_symlink():
        return False
    try:
        with _CONVERTING:
            run.converted.mkdir(exist_ok=True)
            remove_leftovers(run.converted)
            if kept.is_dir():
                remove_directory(kept)  # it is damaged
            with whole_directory(kept) as temporary:
                _write(opened, quantization, temporary)
            for other in run.converted.iterdir():
                if other != kept and re.fullmatch(rf"{quantization}-[0-9a-f]{{16}}", other.name):
                    remove_directory(other)
    except OSError:
        return is_intact(kept)
    return True


def _write(opened: OpenedModel, quantization: Quantization, directory: Path) -> None:
    from transformer_cli.inference.ctranslate2_spec import write_model  # imports torch

    write_model(load_weights_of(opened), quantization, directory)
    sums = {path.name: sha256(path) for path in directory.iterdir()}
    write_checksummed(directory / CONVERTED_SUMS, _Sums(files=sums))
