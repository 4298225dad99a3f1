"""``transformer-cli average``: average the weights of checkpoints."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from transformer_cli.base.errors import CheckpointError, UsageError
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import option
from transformer_cli.cli.display import say

with lazy_imports():
    from transformer_cli.base import writing
    from transformer_cli.runs import checkpoint as checkpoints, directory
    from transformer_cli.text import tokenizer as tokenizers

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def average(
    run: options.Run,
    last: Annotated[
        int | None, option("N", "Average only the N newest checkpoints.  [default: all]", min=1)
    ] = None,
) -> None:
    """Average the weights of a run's last checkpoints.

    The average becomes another checkpoint of the run: use it with --checkpoint average. The setting
    training.keep_last says how many checkpoints a run keeps.

    \b
    Example:
      transformer-cli average runs/toy
      transformer-cli evaluate runs/toy --checkpoint average
    """
    opened = directory.RunDirectory(run)
    opened.load_config()  # raises an error if this is not a run
    with directory.lock_run(opened):
        path, averaged = average_run(opened, last)
    say(f"{path}: the average of {', '.join(each.name for each in averaged)}")


def average_run(run: "directory.RunDirectory", last: int | None) -> tuple[Path, list[Path]]:
    """Average the weights of the newest ``last`` checkpoints of a run; None means all of them.

    The mean of a run's last checkpoints often translates better than any of them (Junczys-Dowmunt
    et al. 2016, arXiv 1605.04809; Vaswani et al. 2017, section 6.1). The caller must hold the
    run's lock. Return the path of the average and the paths of the averaged checkpoints.
    """
    newest = checkpoints.find_checkpoint(run.checkpoints, "last")  # an error if there is none
    paths = checkpoints.list_checkpoints(run.checkpoints)
    wanted = last or len(paths)
    if len(paths) < wanted:
        raise UsageError(
            f"{run.path}: cannot average {wanted} checkpoints, the run has {len(paths)}; leave out "
            f"`last` to average all, or train with training.keep_last={wanted}"
        )
    averaged = paths[-wanted:]
    fingerprint = tokenizers.fingerprint(run.tokenizer)
    opened = [checkpoints.Checkpoint.open(path, fingerprint) for path in averaged]
    state = {
        "step": checkpoints.parse_step(newest) or 0,
        "averaged": [path.as_posix() for path in averaged],
    }
    # A process that died may have left files.
    writing.remove_leftovers(run.checkpoints, ours=(checkpoints.AVERAGE,), others=())
    path = run.checkpoints / checkpoints.AVERAGE
    weights = {checkpoints.MODEL: mean_weights(opened)}
    return checkpoints.write_checkpoint(path, weights, state, fingerprint), averaged


def mean_weights(opened: "Iterable[checkpoints.Checkpoint]") -> "dict[str, Tensor]":
    """Return each weight's mean over the checkpoints, which are loaded one at a time."""
    sums: dict[str, Tensor] = {}
    kinds: dict[str, tuple[torch.Size, torch.dtype]] = {}
    count = 0
    for checkpoint in opened:
        weights = checkpoint.load_weights()
        found = {name: (weight.shape, weight.dtype) for name, weight in weights.items()}
        kinds = kinds or found
        if different := found.items() ^ kinds.items():
            raise CheckpointError(
                f"{checkpoint.path}: '{min(name for name, _ in different)}' does not have the same "
                "shape and type in all checkpoints; average checkpoints of one model"
            )
        for name, weight in weights.items():
            sums[name] = weight.double() + sums.get(name, 0.0)
        count += 1
    return {name: (total / count).to(kinds[name][1]) for name, total in sums.items()}
