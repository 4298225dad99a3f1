"""Saving weights and state so that a crash at any moment loses no older checkpoint.

A checkpoint is a directory ``step-00001200`` that holds

- ``model.safetensors``: the weights, or their moving average where the run keeps one,
- ``optimizer.safetensors``: Adam's two moments of each weight; beside an average, the weights too,
- ``state.json``: where training stood,
- ``manifest.json``: the format's version, the tokenizer's fingerprint, the others' SHA-256, and
  that of all this.

An average of some is one more directory, ``average``, without ``optimizer.safetensors``: it
translates, and training does not go on from it.

Each appears by one rename, complete. Which checkpoint is the last follows from the names; which is
the best stands in the last one's state. No other file has to agree with them.

The checkpoint of a step that is validated is written before the validation, with ``unvalidated`` in
its state. After the validation another one takes its place: the same tensor files, a new state.

Whatever format a version has written, later ones read: 1 had no sum of the manifest itself.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
)
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from transformer_cli.errors import CheckpointError, DamagedCheckpointError
from transformer_cli.files import remove_directory, sha256, whole_directory
from transformer_cli.runs.contents import CHECKPOINT_FILES, CHECKPOINT_NAME

FORMAT = 2
MODEL, OPTIMIZER, STATE, MANIFEST = CHECKPOINT_FILES
AVERAGE = "average"
# What replaces a checkpoint appears whole under this name first; then the old one goes.
_NEW = "-new"


class _Sums(BaseModel):
    """Types of what is summed up for the next record."""

    model_config = ConfigDict(strict=True)

    smoothed: float
    unsmoothed: float
    tgt_tokens: int


class _State(BaseModel):
    """Types of what a state says, as far as it says it: the sums may be a forger's."""

    model_config = ConfigDict(strict=True)

    step: NonNegativeInt = 0
    epoch: NonNegativeInt = 0
    batch: NonNegativeInt = 0
    skipped: NonNegativeInt = 0
    batches_a_step: PositiveInt = 1
    best_step: NonNegativeInt | None = None
    best_bleu: float = 0.0
    best_loss: float = 0.0
    bad_validations: NonNegativeInt = 0
    seconds: FiniteFloat = 0.0
    window: _Sums | None = None
    unvalidated: bool = False


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk, its manifest read; the files are verified when they are loaded."""

    path: Path
    files: Mapping[str, str]
    """SHA-256 by file name."""
    advice: str = "use another checkpoint, or delete this one"
    """What to do where it is damaged."""

    @classmethod
    def open(cls, path: Path, tokenizer: str) -> "Checkpoint":
        """Read the manifest of the checkpoint in the directory ``path``.

        Args:
            path: the checkpoint's directory.
            tokenizer: fingerprint of the tokenizer it is to be used with.

        Raises:
            CheckpointError: it is missing, damaged, of an unknown format, or was trained with
                another tokenizer.
        """
        manifest = _read_manifest(path)
        if manifest.get("tokenizer") != tokenizer:
            raise CheckpointError(
                f"{path}: trained with another tokenizer than the run's; "
                "use a checkpoint of this run"
            )
        return cls(path, manifest["files"])

    @property
    def step(self) -> int:
        """The step that its name tells."""
        return _step(self.path)

    @property
    def told_step(self) -> int | None:
        """The step that its name tells; None where it tells none, as an average's."""
        return self.step if _step_is_told(self.path) else None

    def verify(self) -> None:
        """Read all of its files, and make sure that they are as they were written.

        Raises:
            DamagedCheckpointError: one is not.
        """
        for name in self.files:
            self._verified(name)

    def load_weights(self) -> dict[str, Tensor]:
        """The model's weights by name, on the CPU."""
        return self._load_tensors(MODEL)

    def load_optimizer(self) -> dict[str, Tensor]:
        """What the trainer goes on with beside the model, by name, on the CPU."""
        return self._load_tensors(OPTIMIZER)

    def load_state(self) -> dict[str, Any]:
        """Where training stood."""
        path = self._verified(STATE)
        state = _read_json(path)
        try:
            _State.model_validate(state)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"]))
            raise DamagedCheckpointError(
                f"{path}: {key}: {first['msg']}; use another checkpoint, or delete this one"
            ) from error
        return state

    def _load_tensors(self, name: str) -> dict[str, Tensor]:
        path = self._verified(name)
        try:
            return load_file(path)
        except SafetensorError as error:
            raise DamagedCheckpointError(f"{path}: not a safetensors file ({error})") from error

    def _verified(self, name: str) -> Path:
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


def save_checkpoint(
    directory: Path,
    weights: Mapping[str, Tensor],
    moments: Mapping[str, Tensor],
    state: Mapping[str, Any],
    tokenizer: str,
) -> Path:
    """Write the checkpoint of step ``state["step"]`` into ``directory``; give its path.

    One of that step is replaced.

    Raises:
        CheckpointError: it cannot be written; older checkpoints are as they were.
    """
    path = checkpoint_path(directory, state["step"])
    _save(path, partial(_write_tensors, {MODEL: weights, OPTIMIZER: moments}), state, tokenizer)
    return path


def replace_state(directory: Path, state: Mapping[str, Any], tokenizer: str) -> Path:
    """Give the checkpoint of step ``state["step"]`` another state; its tensors stay as they are.

    Their files are linked, not written again.

    Raises:
        CheckpointError: there is no such checkpoint, or it cannot be written; it is as it was.
    """
    path = checkpoint_path(directory, state["step"])
    sums = {name: found for name, found in _read_manifest(path)["files"].items() if name != STATE}
    _save(path, partial(_link_tensors, path, sums), state, tokenizer)
    return path


def save_average(
    directory: Path, weights: Mapping[str, Tensor], state: Mapping[str, Any], tokenizer: str
) -> Path:
    """Write an average into ``directory``, in an older one's place; give its path.

    Raises:
        CheckpointError: it cannot be written; checkpoints are as they were.
    """
    path = directory / AVERAGE
    _save(path, partial(_write_tensors, {MODEL: weights}), state, tokenizer)
    return path


def _write_tensors(tensors: Mapping[str, Mapping[str, Tensor]], into: Path) -> dict[str, str]:
    """Write a file of tensors each; give their SHA-256."""
    for name, content in tensors.items():
        save_file(dict(content), into / name)
    return {name: sha256(into / name) for name in tensors}


def _link_tensors(path: Path, sums: dict[str, str], into: Path) -> dict[str, str]:
    """Have the tensor files of the checkpoint ``path`` in another directory, too."""
    for name in sums:
        try:
            (into / name).hardlink_to(path / name)
        except OSError:  # not every file system has links
            shutil.copyfile(path / name, into / name)
    return sums


def _save(
    path: Path,
    fill: Callable[[Path], dict[str, str]],
    state: Mapping[str, Any],
    tokenizer: str,
) -> None:
    """Write a checkpoint, in an older one's place.

    Args:
        path: where to.
        fill: puts the tensor files into a directory and gives their SHA-256 by name.
        state: where training stood.
        tokenizer: fingerprint.
    """
    try:
        _finish_replacing(path.parent)
        target = path.with_name(f"{path.name}{_NEW}") if path.is_dir() else path
        with whole_directory(target) as temporary:
            files = fill(temporary)
            _write_json(temporary / STATE, state)
            files[STATE] = sha256(temporary / STATE)
            manifest = {"format": FORMAT, "tokenizer": tokenizer, "files": files}
            _write_json(temporary / MANIFEST, {**manifest, "sum": _sum_of(manifest)})
        if target != path:
            _put_in_place(target)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(
            f"{path}: cannot be written: {reason}; older checkpoints are untouched"
        ) from error


def _finish_replacing(directory: Path) -> None:
    """Do what a process has left undone that died while it replaced a checkpoint."""
    for new in directory.glob(f"*{_NEW}"):
        _put_in_place(new)


def _put_in_place(new: Path) -> None:
    """Have a whole checkpoint take the place of the one that it is the successor of."""
    path = new.with_name(new.name.removesuffix(_NEW))
    if path.is_dir():
        remove_directory(path)
    new.rename(path)


def checkpoint_path(directory: Path, step: int) -> Path:
    """Where the checkpoint of a step is, or is to be."""
    return directory / f"step-{step:08d}"


def newest_whole(directory: Path, tokenizer: str) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that is not damaged; newer ones are set aside under another name.

    Args:
        directory: where checkpoints are.
        tokenizer: as for ``Checkpoint.open``.

    Returns:
        The checkpoint, or None where there are none; and what is wrong with each one set aside.

    Raises:
        CheckpointError: all are damaged, and then all stay where they are; or one is of another
            tokenizer or of a later version's format.
    """
    _finish_replacing(directory)
    damaged: list[Path] = []
    reasons: list[str] = []
    for path in reversed(list_checkpoints(directory)):
        try:
            checkpoint = Checkpoint.open(path, tokenizer)
            checkpoint.verify()
        except DamagedCheckpointError as error:
            damaged.append(path)
            found, _, advice = str(error).rpartition("; ")
            reasons.append(f"{found or advice}; set aside as damaged-{path.name}")
            continue
        for each in damaged:
            _set_aside(each)
        return checkpoint, reasons
    if damaged:
        raise CheckpointError(
            f"{directory}: no checkpoint is whole, the newest is {damaged[0].name}; restore one "
            "or start anew with --overwrite"
        )
    return None, []


def _set_aside(path: Path) -> None:
    """Out of the way of the one that training will save again, for a person to look at."""
    aside = path.with_name(f"damaged-{path.name}")
    if aside.is_dir():
        remove_directory(aside)
    path.rename(aside)


def tells_batches(directory: Path) -> bool:
    """Whether the newest checkpoint says how many batches a step has; format 1 does not."""
    checkpoints = list_checkpoints(directory)
    try:
        return bool(checkpoints) and "batches_a_step" in _read_json(checkpoints[-1] / STATE)
    except CheckpointError:
        return True  # it will be passed over, or refused, by who goes on from it


def list_checkpoints(directory: Path) -> list[Path]:
    """The checkpoints in ``directory``, oldest first."""
    if not directory.is_dir():
        return []
    return sorted(filter(_step_is_told, directory.iterdir()), key=_step)


def newest_step(directory: Path) -> int:
    """The step of the newest checkpoint in ``directory``, whole or not; 0, if there is none."""
    return max(map(_step, list_checkpoints(directory)), default=0)


def _step_is_told(path: Path) -> bool:
    return CHECKPOINT_NAME.fullmatch(path.name) is not None


def _step(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def find_checkpoint(directory: Path, which: str) -> Path:
    """The directory of the checkpoint called 'best', 'last' or 'average', or at the path ``which``.

    Raises:
        CheckpointError: there is none.
    """
    if which == AVERAGE:
        if not (directory / AVERAGE).is_dir():
            raise CheckpointError(
                f"{directory}: no average yet; make one with: "
                f"transformer-cli average {directory.parent}"
            )
        return directory / AVERAGE
    if which not in ("best", "last"):
        # By its name in the run, or by its path.
        path = directory / which if (directory / which).is_dir() else Path(which)
        if not path.is_dir():
            raise CheckpointError(
                f"--checkpoint {which}: neither best, last, average, one of {directory}, nor the "
                "path of one"
            )
        return path
    checkpoints = list_checkpoints(directory)
    if not checkpoints:
        raise CheckpointError(
            f"{directory}: no checkpoint yet; train first: transformer-cli train CONFIG"
        )
    last = checkpoints[-1]
    if which == "last":
        return last
    best_step = Checkpoint(last, _read_manifest(last)["files"]).load_state().get("best_step")
    if best_step is None:
        return last  # the run has not been validated yet
    best = checkpoint_path(directory, best_step)
    if not best.is_dir():
        raise CheckpointError(f"{best}: the best checkpoint is gone; use --checkpoint last")
    return best


def prune_checkpoints(directory: Path, keep: int) -> None:
    """Delete all but the newest ``keep`` checkpoints and the best one."""
    best = find_checkpoint(directory, "best")
    for path in list_checkpoints(directory)[:-keep]:
        if path != best:
            remove_directory(path)


def _read_manifest(path: Path) -> dict[str, Any]:
    manifest = _read_json(path / MANIFEST)
    written = manifest.pop("sum", None)
    is_whole = manifest.get("format") == 1 if written is None else written == _sum_of(manifest)
    if not is_whole or not isinstance(manifest.get("files"), dict):
        raise DamagedCheckpointError(
            f"{path / MANIFEST}: damaged, it is not as it was written; use another checkpoint"
        )
    if manifest.get("format") not in range(1, FORMAT + 1):
        raise CheckpointError(
            f"{path / MANIFEST}: format {manifest.get('format')!r}, "
            f"but this version of transformer-cli reads formats up to {FORMAT}"
        )
    return manifest


def _sum_of(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DamagedCheckpointError(
            f"{path}: missing; is this a checkpoint's directory?"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedCheckpointError(f"{path}: cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise DamagedCheckpointError(f"{path}: damaged, not a JSON object")
    return content


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
