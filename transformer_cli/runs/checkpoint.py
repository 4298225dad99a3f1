"""A checkpoint on disk: its format, loading and verification (checkpoint_writer.py writes it).

A checkpoint is a directory ``step-00001200`` that holds

- ``model.safetensors``: the weights, or their moving average if the run has one,
- ``optimizer.safetensors``: Adam's moments by weight; with a moving average, also the weights,
- ``state.json``: the training state,
- ``manifest.json``: the format, the tokenizer's fingerprint, the SHA-256 of the other files and
  that of the manifest itself.

The directory ``average`` holds averaged weights in the same format, without
``optimizer.safetensors``: it can translate, but training cannot resume from it.

Each directory appears by one rename, complete. The names tell which checkpoint is the last; the
last one's state tells which is the best. No other file has to agree with them.

A step is saved before its validation, with ``unvalidated`` in its state, and replaced after it: the
same tensor files, a new state.

Later versions read all earlier formats: format 1 had no SHA-256 of the manifest itself.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
)
from safetensors import SafetensorError

from transformer_cli.errors import CheckpointError, DamagedCheckpointError
from transformer_cli.files import sha256
from transformer_cli.foreign_files import read_small
from transformer_cli.runs.contents import CHECKPOINT_FILES, CHECKPOINT_NAME

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 2
MODEL, OPTIMIZER, STATE, MANIFEST = CHECKPOINT_FILES
AVERAGE = "average"


class _WindowState(BaseModel):
    """Schema of the sums since the last training record."""

    model_config = ConfigDict(strict=True)

    loss: float = Field(alias="smoothed")
    nll_loss: float = Field(alias="unsmoothed")
    tgt_tokens: int


class _State(BaseModel):
    """Schema of state.json; checksums do not protect against a file written by hand."""

    model_config = ConfigDict(strict=True)

    step: NonNegativeInt
    epoch: NonNegativeInt = 0
    batch: NonNegativeInt = 0
    skipped: NonNegativeInt = 0
    batches_per_step: PositiveInt = Field(1, alias="batches_a_step")
    best_step: NonNegativeInt | None = None
    best_rank: float = 0.0
    best_loss: float = 0.0
    bad_validations: NonNegativeInt = 0
    seconds: FiniteFloat = 0.0
    window: _WindowState | None = None
    unvalidated: bool = False


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose manifest was read; other files are verified when they are loaded."""

    path: Path
    files: Mapping[str, str]
    """SHA-256 by file name."""
    advice: str = "use another checkpoint, or delete this one"
    """Advice to the user if a file is damaged."""

    @classmethod
    def open(cls, path: Path, tokenizer: str | None = None) -> "Checkpoint":
        """Read the manifest of the checkpoint in the directory ``path``.

        Args:
            path: the checkpoint's directory.
            tokenizer: fingerprint of the run's tokenizer; None if it does not matter.

        Raises:
            CheckpointError: it is missing, damaged, of an unknown format, or was trained with
                another tokenizer.
        """
        manifest = read_manifest(path)
        if tokenizer is not None and manifest.get("tokenizer") != tokenizer:
            raise CheckpointError(
                f"{path}: trained with another tokenizer than the run's; "
                "use a checkpoint of this run"
            )
        return cls(path, manifest["files"])

    @property
    def step(self) -> int | None:
        """Return the step in its directory's name; None for an average."""
        return parse_step(self.path)

    def verify(self) -> None:
        """Compare the SHA-256 of all files with the manifest.

        Raises:
            DamagedCheckpointError: one differs.
        """
        for name in self.files:
            self._verify(name)

    def load_weights(self) -> "dict[str, Tensor]":
        """Return the model's weights by name, on the CPU.

        Raises:
            DamagedCheckpointError: they are missing or damaged.
            CheckpointError: one is infinite or no number.
        """
        weights = self._load_tensors(MODEL)
        for name, weight in weights.items():
            numbers = weight.float()
            # The sum takes a thirtieth of the time; of finite numbers it may be infinite.
            if not numbers.sum().isfinite() and not numbers.isfinite().all():
                raise CheckpointError(
                    f"{self.path / MODEL}: '{name}' has values that are infinite or no number; "
                    f"{self.advice}"
                )
        return weights

    def hash_weights(self) -> str:
        """Return the SHA-256 of the weights.

        Raises:
            DamagedCheckpointError: they are missing, or it is not the manifest's.
        """
        self._verify(MODEL)
        return self.files[MODEL]

    def load_optimizer(self) -> "dict[str, Tensor]":
        """Return the optimizer state by name, on the CPU; see ``Trainer.optimizer_state``."""
        return self._load_tensors(OPTIMIZER)

    def load_state(self) -> dict[str, Any]:
        """Return the content of state.json, validated, with its keys as stored.

        Raises:
            DamagedCheckpointError: it is missing, damaged or not a training state.
        """
        path = self._verify(STATE)
        state = read_json(path)
        try:
            _State.model_validate(state)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"]))
            raise DamagedCheckpointError(f"{path}: {key}: {first['msg']}; {self.advice}") from error
        return state

    def _load_tensors(self, name: str) -> "dict[str, Tensor]":
        # Imports torch, which other readers of a checkpoint do without.
        from safetensors.torch import load_file

        path = self._verify(name)
        try:
            return load_file(path)
        except SafetensorError as error:
            raise DamagedCheckpointError(f"{path}: not a safetensors file ({error})") from error

    def _verify(self, name: str) -> Path:
        path = self.path / name
        if not path.is_file():
            raise DamagedCheckpointError(f"{path}: missing; {self.advice}")
        try:
            found = sha256(path)
        except OSError as error:
            raise DamagedCheckpointError(f"{path}: cannot be read: {error}") from error
        if found != self.files.get(name):
            raise DamagedCheckpointError(
                f"{path}: damaged, its SHA-256 is not the manifest's; {self.advice}"
            )
        return path


def checkpoint_path(directory: Path, step: int) -> Path:
    """Return the path of the checkpoint of a step."""
    return directory / f"step-{step:08d}"


def parse_step(path: Path) -> int | None:
    """Return the step in a checkpoint's name; None if it is no checkpoint of a step."""
    match = CHECKPOINT_NAME.fullmatch(path.name)
    return int(match[1]) if match else None


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the verified manifest of the checkpoint ``path``.

    Raises:
        CheckpointError: it is missing, damaged or of an unknown format.
    """
    manifest = read_json(path / MANIFEST)
    written = manifest.pop("sum", None)
    is_intact = (
        manifest.get("format") == 1 if written is None else written == hash_manifest(manifest)
    )
    if not is_intact or not isinstance(manifest.get("files"), dict):
        raise DamagedCheckpointError(
            f"{path / MANIFEST}: damaged, its checksum does not match; use another checkpoint"
        )
    if manifest.get("format") not in range(1, FORMAT + 1):
        raise CheckpointError(
            f"{path / MANIFEST}: format {manifest.get('format')!r}, "
            f"but this version of transformer-cli reads formats up to {FORMAT}"
        )
    return manifest


def hash_manifest(manifest: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a manifest without its key ``sum``, where it is recorded."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a checkpoint's file.

    Raises:
        DamagedCheckpointError: it is missing or damaged.
    """
    try:
        content = json.loads(read_small(path))
    except FileNotFoundError:
        raise DamagedCheckpointError(
            f"{path}: missing; is this a checkpoint's directory?"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedCheckpointError(f"{path}: cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise DamagedCheckpointError(f"{path}: damaged, not a JSON object")
    return content
