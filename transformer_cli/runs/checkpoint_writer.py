"""Write checkpoints so that a crash at any moment leaves the older ones intact."""

import json
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from transformer_cli.artifact import write_record
from transformer_cli.errors import CheckpointError
from transformer_cli.files import remove_leftovers, sha256, whole_directory
from transformer_cli.runs.checkpoint import (
    AVERAGE,
    FORMAT,
    MANIFEST,
    MODEL,
    NEW,
    OPTIMIZER,
    STATE,
    Manifest,
    checkpoint_path,
    finish_replacing,
    move_into_place,
    read_manifest,
)


def save_checkpoint(
    directory: Path,
    weights: Mapping[str, Tensor],
    optimizer_state: Mapping[str, Tensor],
    state: Mapping[str, Any],
    tokenizer: str,
) -> Path:
    """Write the checkpoint of step ``state["step"]``, replacing an older one; return its path."""
    path = checkpoint_path(directory, state["step"])
    tensors = {MODEL: weights, OPTIMIZER: optimizer_state}
    _save(path, partial(_write_tensors, tensors), state, tokenizer)
    return path


def replace_state(directory: Path, state: Mapping[str, Any], tokenizer: str) -> None:
    """Replace the state of the checkpoint of step ``state["step"]``, but not its tensor files."""
    path = checkpoint_path(directory, state["step"])
    hashes = {name: hash_ for name, hash_ in read_manifest(path).files.items() if name != STATE}
    _save(path, partial(_link_tensors, path, hashes), state, tokenizer)


def save_average(
    directory: Path, weights: Mapping[str, Tensor], state: Mapping[str, Any], tokenizer: str
) -> Path:
    """Write averaged weights, replacing older ones; return their path.

    The caller holds the run's lock, so no other process is writing an average.
    """
    path = directory / AVERAGE
    remove_leftovers(directory, ours=(f"{AVERAGE}*",), others=())
    _save(path, partial(_write_tensors, {MODEL: weights}), state, tokenizer)
    return path


def _write_tensors(tensors: Mapping[str, Mapping[str, Tensor]], into: Path) -> dict[str, str]:
    """Write the tensor files; return their SHA-256."""
    for name, content in tensors.items():
        save_file(dict(content), into / name)
        # The library makes files for their owner alone, whatever the umask: a run may be shared.
        (into / name).chmod(into.stat().st_mode & 0o666)
    return {name: sha256(into / name) for name in tensors}


def _link_tensors(path: Path, hashes: dict[str, str], into: Path) -> dict[str, str]:
    """Hard-link the tensor files of the checkpoint ``path``; return their SHA-256."""
    for name in hashes:
        try:
            (into / name).hardlink_to(path / name)
        except (OSError, NotImplementedError):  # not every file system has links
            shutil.copyfile(path / name, into / name)
    return hashes


def _save(
    path: Path,
    fill: Callable[[Path], dict[str, str]],
    state: Mapping[str, Any],
    tokenizer: str,
) -> None:
    """Write a checkpoint, replacing an older one; ``fill`` writes tensors, returns SHA-256s."""
    try:
        finish_replacing(path.parent)
        target = path.with_name(f"{path.name}{NEW}") if path.is_dir() else path
        with whole_directory(target) as temporary:
            files = fill(temporary)
            (temporary / STATE).write_bytes(json.dumps(state, indent=1).encode() + b"\n")
            files[STATE] = sha256(temporary / STATE)
            manifest = Manifest(format=FORMAT, tokenizer=tokenizer, files=files)
            write_record(temporary / MANIFEST, manifest)
        if target != path:
            move_into_place(target)
    except (OSError, SafetensorError) as error:
        # What follows names a temporary file.
        reason = getattr(error, "strerror", None) or str(error).partition(" at path ")[0]
        raise CheckpointError(
            f"{path}: cannot be written: {reason}; older checkpoints are untouched"
        ) from error
