"""The checkpoints of a run: find one, open the newest intact one, prune old ones."""

from pathlib import Path

from transformer_cli.errors import CheckpointError, DamagedCheckpointError
from transformer_cli.files import remove_directory
from transformer_cli.runs.checkpoint import (
    AVERAGE,
    STATE,
    Checkpoint,
    checkpoint_path,
    parse_step,
    read_json,
)


def list_checkpoints(directory: Path) -> list[Path]:
    """Return the checkpoints of steps in ``directory``, oldest first."""
    if not directory.is_dir():
        return []
    steps = {parse_step(path): path for path in directory.iterdir()}
    return [steps[step] for step in sorted(step for step in steps if step is not None)]


def newest_step(directory: Path) -> int:
    """Return the step of the newest checkpoint, intact or not; 0 if there is none."""
    return max((parse_step(path) or 0 for path in list_checkpoints(directory)), default=0)


def open_newest_intact(directory: Path, tokenizer: str) -> tuple[Checkpoint | None, list[str]]:
    """Open the newest checkpoint that is not damaged; rename newer, damaged ones.

    Args:
        directory: the run's checkpoints.
        tokenizer: as for ``Checkpoint.open``.

    Returns:
        The checkpoint, or None if there are none; and a message for each damaged one.

    Raises:
        CheckpointError: all are damaged, and none is renamed; or one was trained with another
            tokenizer or has a later version's format.
    """
    from transformer_cli.runs.checkpoint_writer import finish_replacing  # imports torch

    finish_replacing(directory)
    damaged: list[Path] = []
    messages: list[str] = []
    for path in reversed(list_checkpoints(directory)):
        try:
            checkpoint = Checkpoint.open(path, tokenizer)
            checkpoint.verify()
        except DamagedCheckpointError as error:
            damaged.append(path)
            found, _, advice = str(error).rpartition("; ")
            messages.append(f"{found or advice}; set aside as damaged-{path.name}")
            continue
        for each in damaged:
            _rename_damaged(each)
        return checkpoint, messages
    if damaged:
        raise CheckpointError(
            f"{directory}: no checkpoint is whole, the newest is {damaged[0].name}; restore one "
            "or start anew with --overwrite"
        )
    return None, []


def _rename_damaged(path: Path) -> None:
    # Training will save this step again; the damaged files are kept for inspection.
    renamed = path.with_name(f"damaged-{path.name}")
    if renamed.is_dir():
        remove_directory(renamed)
    path.rename(renamed)


def records_batches_per_step(directory: Path) -> bool:
    """Return whether the newest checkpoint records the batches per step; format 1 does not."""
    checkpoints = list_checkpoints(directory)
    try:
        return bool(checkpoints) and "batches_a_step" in read_json(checkpoints[-1] / STATE)
    except CheckpointError:
        return True  # resuming will report it, or use an older one


def find_checkpoint(directory: Path, which: str) -> Path:
    """Return the path of the checkpoint 'best', 'last' or 'average', or of one by name or path.

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
    best_step = Checkpoint.open(last).load_state().get("best_step")
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
