"""The checkpoints of a run: how to write, load and prune them, and which one is the best.

A checkpoint is a directory ``step-00001200`` that holds

- ``model.safetensors``: the weights, or their moving average if the run has one,
- ``optimizer.safetensors``: the optimizer's state for each weight; with a moving average, also
  the weights themselves,
- ``manifest.json``: the format, the tokenizer's fingerprint, and the SHA-256 of the files above,
- ``state.json``: ``TrainingState``, the position in the training and its validation scores.

The directory ``average`` holds averaged weights in the same format, without
``optimizer.safetensors``: it can translate, but training cannot resume from it.

A single rename makes each directory appear complete. A step is saved before its validation, with
``unvalidated`` set in state.json, which is replaced afterwards. The directories' names show which
checkpoint is the last one, and its state says which one is the best. No other file records this.
"""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeInt, PositiveInt
from safetensors import SafetensorError

from transformer_cli.base.artifact import read_record, write_record
from transformer_cli.base.errors import (
    CheckpointError,
    DamagedCheckpointError,
    MissingCheckpointError,
    did_you_mean,
)
from transformer_cli.base.files import sha256
from transformer_cli.base.messages import log
from transformer_cli.base.writing import (
    TEMPORARY_MARK,
    remove_directory,
    remove_leftovers,
    whole_directory,
)
from transformer_cli.config.schema import TrainingConfig

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 4  # earlier formats were never released and cannot be read
MODEL, OPTIMIZER = "model.safetensors", "optimizer.safetensors"
STATE, MANIFEST = "state.json", "manifest.json"
AVERAGE = "average"
_NAME = re.compile(r"step-(\d{8,})")


class CheckpointManifest(BaseModel):
    """Schema of a checkpoint's manifest.json; ``files`` has the SHA-256 of each tensor file."""

    model_config = ConfigDict(strict=True)

    format: Any
    tokenizer: str
    files: dict[str, str]


class TrainingState(BaseModel):
    """Schema of a checkpoint's state.json: all that training resumes from, except tensors."""

    model_config = ConfigDict(strict=True)

    step: NonNegativeInt
    epoch: NonNegativeInt = 0
    batch: NonNegativeInt = 0
    skipped: NonNegativeInt = 0
    batches_per_step: PositiveInt = 1
    micro_batches: PositiveInt = 1
    window: Annotated[list[float], Field(min_length=3, max_length=3)] = [0.0, 0.0, 0.0]
    """Losses and target tokens since the last record of metrics.jsonl; see ``Trainer.window``."""
    seconds: FiniteFloat = 0.0  # time spent training, in all sessions
    unvalidated: bool = False  # whether the step still has to be validated
    rank: FiniteFloat | None = None
    """The step's ``Validation.rank``: a score, or the negative loss; None if not validated."""
    best_step: NonNegativeInt | None = None
    best_rank: float = -1.0  # of the best validation
    best_loss: float = 0.0
    bad_validations: NonNegativeInt = 0  # validations since the best one
    averaged: list[str] = []  # paths of the checkpoints whose mean this one is

    def add_validation(self, step: int, rank: float, loss: float) -> bool:
        """Record a validation; return whether its rank or, in a tie, its loss is the best yet."""
        self.rank = rank
        is_best = self.best_step is None or (rank, -loss) > (self.best_rank, -self.best_loss)
        if is_best:
            self.best_step, self.best_rank, self.best_loss = step, rank, loss
        self.bad_validations = 0 if is_best else self.bad_validations + 1
        return is_best

    def is_final(self, training: TrainingConfig) -> bool:
        """Return whether the training has no steps or validations left."""
        is_trained = self._has_all_steps(training) or self._is_out_of_patience(training)
        return is_trained and not self.unvalidated

    def describe_early_end(self, training: TrainingConfig) -> str:
        """Return the end of a message that says why training ended early, or '' if it did not."""
        if self._has_all_steps(training) or not self._is_out_of_patience(training):
            return ""
        count = self.bad_validations
        validations = f"{count} validation{'s' * (count != 1)}"
        return f"; ended early, after {validations} without a better one (training.patience)"

    def _has_all_steps(self, training: TrainingConfig) -> bool:
        return self.epoch >= training.epochs or (
            training.max_steps is not None and self.step >= training.max_steps
        )

    def _is_out_of_patience(self, training: TrainingConfig) -> bool:
        return training.patience is not None and self.bad_validations >= training.patience


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose manifest was read; other files are verified when they are loaded."""

    path: Path
    files: Mapping[str, str]  # SHA-256 by file name
    advice: str = "use another checkpoint, or delete this one"  # for the user, if a file is damaged

    @classmethod
    def open(cls, path: Path, tokenizer: str | None = None) -> "Checkpoint":
        """Read a checkpoint's manifest, which must have the tokenizer fingerprint ``tokenizer``."""
        manifest = read_manifest(path)
        if tokenizer is not None and manifest.tokenizer != tokenizer:
            raise CheckpointError(
                f"{path}: trained with a different tokenizer than the run's; "
                "use a checkpoint of this run"
            )
        return cls(path, manifest.files)

    @property
    def step(self) -> int | None:
        """The optimizer step in the directory's name, or None for averaged weights."""
        return parse_step(self.path)

    def verify(self) -> None:
        """Raise ``DamagedCheckpointError`` if a file is missing or damaged."""
        for name in self.files:
            self.verify_file(name)
        self.load_state()

    def load_weights(self) -> "dict[str, Tensor]":
        """Return the weights on the CPU, keyed by name; CheckpointError if any is not finite."""
        weights = self._load_tensors(MODEL)
        for name, weight in weights.items():
            numbers = weight.float()
            # The sum takes a thirtieth of the time, but may be infinite for finite numbers.
            if not numbers.sum().isfinite() and not numbers.isfinite().all():
                raise CheckpointError(
                    f"{self.path / MODEL}: '{name}' has values that are infinite or not a number; "
                    f"{self.advice}"
                )
        return weights

    def load_optimizer(self) -> "dict[str, Tensor]":
        """Return the optimizer state on the CPU, keyed by name; see ``Optimizer.state``."""
        return self._load_tensors(OPTIMIZER)

    def load_state(self) -> TrainingState:
        """Return the state of the training; raise ``DamagedCheckpointError`` if it is damaged."""
        path = self.path / STATE
        state = read_record(path, TrainingState)
        if state is None:
            problem = "damaged, its checksum does not match" if path.is_file() else "missing"
            raise DamagedCheckpointError(f"{path}: {problem}; {self.advice}")
        return state

    def _load_tensors(self, name: str) -> "dict[str, Tensor]":
        # This imports torch, which other readers of a checkpoint do not need.
        from safetensors.torch import load_file

        path = self.verify_file(name)
        try:
            return load_file(path)
        except SafetensorError as error:
            raise DamagedCheckpointError(f"{path}: not a safetensors file ({error})") from error

    def verify_file(self, name: str) -> Path:
        """Return a file's path; raise ``DamagedCheckpointError`` if its SHA-256 is wrong."""
        path = self.path / name
        try:
            if sha256(path) == self.files.get(name):
                return path
            problem = "damaged, its SHA-256 differs from the manifest"
        except FileNotFoundError:
            problem = "missing"
        except OSError as error:
            problem = f"cannot be read: {error.strerror}"
        raise DamagedCheckpointError(f"{path}: {problem}; {self.advice}")


def read_manifest(path: Path) -> CheckpointManifest:
    """Read and verify the manifest of the checkpoint at ``path``."""
    file = path / MANIFEST
    if not file.is_file():
        raise DamagedCheckpointError(f"{file}: missing; is this a checkpoint directory?")
    manifest = read_record(file, CheckpointManifest)
    if manifest is None:
        raise DamagedCheckpointError(
            f"{file}: damaged, its checksum does not match; use another checkpoint"
        )
    if manifest.format != FORMAT:
        # It is not damaged, so training must not resume from an older one instead.
        raise CheckpointError(
            f"{file}: format {manifest.format!r}, "
            f"but this version of transformer-cli reads format {FORMAT}"
        )
    return manifest


def save_checkpoint(
    directory: Path,
    weights: "Mapping[str, Tensor]",
    optimizer_state: "Mapping[str, Tensor]",
    state: Mapping[str, Any],
    tokenizer: str,
) -> Path:
    """Write the checkpoint of step ``state["step"]``, replacing an older one; return its path."""
    path = checkpoint_path(directory, state["step"])
    return write_checkpoint(path, {MODEL: weights, OPTIMIZER: optimizer_state}, state, tokenizer)


def replace_state(directory: Path, state: Mapping[str, Any]) -> None:
    """Replace the state of the checkpoint of step ``state["step"]``, but not its tensors."""
    path = checkpoint_path(directory, state["step"])
    try:
        remove_leftovers(path, ours=(STATE,), others=())
        write_record(path / STATE, TrainingState(**state))
    except OSError as error:
        raise _write_error(path, error) from error


def write_checkpoint(
    path: Path,
    tensors: "Mapping[str, Mapping[str, Tensor]]",
    state: Mapping[str, Any],
    tokenizer: str,
) -> Path:
    """Write a checkpoint to ``path``, replacing an older one; return ``path``."""
    from safetensors.torch import save_file  # imports torch

    older = path.with_name(f"{path.name}{TEMPORARY_MARK}0")  # no process has this id
    try:
        with whole_directory(path) as temporary:
            files = {}
            for name, content in tensors.items():
                save_file(dict(content), temporary / name)
                # safetensors makes files that only their owner can read, whatever the umask. A run
                # may be shared.
                (temporary / name).chmod(temporary.stat().st_mode & 0o666)
                files[name] = sha256(temporary / name)
            write_record(temporary / STATE, TrainingState(**state))
            manifest = CheckpointManifest(format=FORMAT, tokenizer=tokenizer, files=files)
            write_record(temporary / MANIFEST, manifest)
            # A step has no older version. An average can be made again if the process dies here.
            if path.is_dir():
                path.rename(older)
        shutil.rmtree(older, ignore_errors=True)
        return path
    except (OSError, SafetensorError) as error:
        raise _write_error(path, error) from error
    finally:
        if older.is_dir() and not path.is_dir():  # the disk was full, or Ctrl-C, at the last moment
            older.rename(path)


def _write_error(path: Path, error: Exception) -> CheckpointError:
    # The text after 'at path' names a temporary file.
    reason = getattr(error, "strerror", None) or str(error).partition(" at path ")[0]
    return CheckpointError(f"{path}: cannot be written: {reason}; older checkpoints are untouched")


def checkpoint_path(directory: Path, step: int) -> Path:
    """Return the path of the checkpoint for a step."""
    return directory / f"step-{step:08d}"


def parse_step(path: Path) -> int | None:
    """Return the step in a checkpoint's name, or None if the name has no step."""
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else None


def list_checkpoints(directory: Path) -> list[Path]:
    """Return the paths of all step checkpoints in ``directory``, oldest first."""
    if not directory.is_dir():
        return []
    steps = {parse_step(path): path for path in directory.iterdir()}
    return [steps[step] for step in sorted(step for step in steps if step is not None)]


def open_newest_intact(directory: Path, tokenizer: str) -> Checkpoint | None:
    """Open the newest intact checkpoint; return None if there are no checkpoints.

    Rename all newer ones, which are damaged, and log this. Raise CheckpointError if none is
    intact.
    """
    damaged: dict[Path, str] = {}
    for path in reversed(list_checkpoints(directory)):
        try:
            checkpoint = Checkpoint.open(path, tokenizer)
            checkpoint.verify()
        except DamagedCheckpointError as error:
            reason, _, advice = str(error).rpartition("; ")
            damaged[path] = f"{reason or advice}; set aside as damaged-{path.name}"
            continue
        # Training will save these steps again; the damaged files are kept for inspection.
        for newer, problem in damaged.items():
            renamed = newer.with_name(f"damaged-{newer.name}")
            if renamed.is_dir():
                remove_directory(renamed)
            newer.rename(renamed)
            log(problem)
        return checkpoint
    if damaged:
        raise CheckpointError(
            f"{directory}: all checkpoints are damaged, the newest is {next(iter(damaged)).name}; "
            "restore one, or start again with `overwrite`"
        )
    return None


def find_checkpoint(directory: Path, which: str) -> Path:
    """Return the path of a checkpoint, given 'best', 'last', 'average', a name or a path."""
    if which not in ("best", "last"):
        path = directory / which if (directory / which).is_dir() else Path(which)
        if which == AVERAGE and path.parent != directory:
            raise MissingCheckpointError(
                f"{directory}: no average yet; run: transformer-cli average {directory.parent}"
            )
        if not path.is_dir():
            names = ["best", "last", AVERAGE, *(each.name for each in list_checkpoints(directory))]
            hint = f"; {hint}" if (hint := did_you_mean(which, names)) else ""
            raise MissingCheckpointError(
                f"`checkpoint` {which}: not found; give best, last, average, a name in "
                f"{directory}, or a path{hint}"
            )
        return path
    checkpoints = list_checkpoints(directory)
    if not checkpoints:
        raise CheckpointError(
            f"{directory}: no checkpoint yet; train first: transformer-cli train CONFIG"
        )
    last = checkpoints[-1]
    best_step = Checkpoint.open(last).load_state().best_step if which == "best" else None
    if best_step is None:
        return last  # it was asked for, or the run has not been validated yet
    best = checkpoint_path(directory, best_step)
    if not best.is_dir():
        raise CheckpointError(f"{best}: the best checkpoint is gone; use `checkpoint` last")
    return best


def prune_checkpoints(directory: Path, training: TrainingConfig) -> None:
    """Delete all checkpoints except the best one and the ``training.keep_last`` newest ones."""
    checkpoints = list_checkpoints(directory)
    best_step = Checkpoint.open(checkpoints[-1]).load_state().best_step
    kept = {*map(parse_step, checkpoints[-training.keep_last :]), best_step}
    for path in checkpoints:
        if parse_step(path) not in kept:
            remove_directory(path)
