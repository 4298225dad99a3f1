"""``transformer-cli average``: the mean of checkpoints' weights."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from transformer_cli.base.errors import CheckpointError, RunError, UsageError
from transformer_cli.base.messages import log
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import argument, option
from transformer_cli.cli.display import say

with lazy_imports():
    from transformer_cli.base import writing
    from transformer_cli.runs import (
        checkpoint as checkpoints,
        directory,
        metrics_log,
        trained_model,
    )
    from transformer_cli.text import tokenizer as tokenizers

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def average(
    runs: Annotated[list[Path], argument("RUN", "Run directory of a training.")],
    last: Annotated[
        int | None, option("N", "The newest N checkpoints of each run.  [default: all]", min=1)
    ] = None,
) -> None:
    """Average the weights of a run's newest checkpoints.

    The average is a checkpoint of the run like any other: evaluate and translate read it with
    --checkpoint average, until another is made. A run keeps as many checkpoints as
    training.keep_last says; those of a Ctrl-C, which no validation has judged, are left out. Of
    several runs, which should share their initial weights, the first gets the average.

    \b
    Example:
      transformer-cli average runs/toy
      transformer-cli evaluate runs/toy --checkpoint average
    """
    if len({run.resolve() for run in runs}) < len(runs):
        raise UsageError("average: a run is named twice; name each once")
    directories = [directory.RunDirectory(run) for run in runs]
    directories[0].load_config()
    directories[0].check_not_exported()
    with directory.lock_run(directories[0]):
        path, averaged = average_runs(directories, last)
    for run in directories:
        for stop in list_stops(run):
            log(f"{stop}: left out, as training was stopped there before a validation")
    say(f"{path}: the average of {', '.join(each.name for each in averaged)}")


def average_runs(
    runs: "Sequence[directory.RunDirectory]", last: int | None
) -> tuple[Path, list[Path]]:
    """Average the weights of the ``last`` checkpoints, or of all, of one run or each of several.

    The mean of a training's last checkpoints often translates better than each of them (Junczys-
    Dowmunt et al. 2016, arXiv 1605.04809; Vaswani et al. 2017, section 6.1). Of several runs it
    needs the same initial weights; it goes into the first, whose lock the caller holds. Returned
    are its path and those of the averaged checkpoints.
    """
    first = runs[0]
    for other in runs[1:]:
        if differing := trained_model.model_differences(first.load_config(), other.load_config()):
            listed = ", ".join(f"{diff.key} is {diff.old} and {diff.new}" for diff in differing)
            raise RunError(
                f"{first.path} and {other.path}: other models ({listed}); no average of them"
            )
        if not tokenizers.have_same_tokenizers(first.tokenizer, other.tokenizer):
            raise RunError(
                f"{first.path} and {other.path}: other tokenizers, so the same weights do not "
                "stand for the same words; no average of them"
            )
    newest = [(run, path) for run in runs for path in _newest_checkpoints(run, last)]
    opened = [
        checkpoints.Checkpoint.open(path, tokenizers.fingerprint(run.tokenizer))
        for run, path in newest
    ]
    averaged = [path for _, path in newest]
    step = max(checkpoints.parse_step(path) or 0 for run, path in newest if run is first)
    state = {"step": step, "averaged": [path.as_posix() for path in averaged]}
    fingerprint = tokenizers.fingerprint(first.tokenizer)
    # Left by a process that died.
    writing.remove_leftovers(first.checkpoints, ours=(checkpoints.AVERAGE,), others=())
    path = first.checkpoints / checkpoints.AVERAGE
    weights = {checkpoints.MODEL: mean_weights(opened)}
    return checkpoints.write_checkpoint(path, weights, state, fingerprint), averaged


def mean_weights(opened: "Iterable[checkpoints.Checkpoint]") -> "dict[str, Tensor]":
    """Return the mean of each weight, in its dtype; one checkpoint at a time is in memory."""
    sums: dict[str, Tensor] = {}
    kinds: dict[str, tuple[torch.Size, torch.dtype]] = {}
    count = 0
    for checkpoint in opened:
        weights = checkpoint.load_weights()
        found = {name: (weight.shape, weight.dtype) for name, weight in weights.items()}
        kinds = kinds or found
        if different := found.items() ^ kinds.items():
            raise CheckpointError(
                f"{checkpoint.path}: '{min(name for name, _ in different)}' is not alike in all "
                "checkpoints; average those of one model"
            )
        for name, weight in weights.items():
            sums[name] = weight.double() + sums.get(name, 0.0)
        count += 1
    return {name: (total / count).to(kinds[name][1]) for name, total in sums.items()}


def list_stops(run: "directory.RunDirectory") -> list[Path]:
    """Return the checkpoints of stops, by Ctrl-C say: neither validated nor due by save_every."""
    every = run.load_config().training.save_every
    records = metrics_log.read_records(run.metrics)
    if not records:  # a model of another program
        return []
    validated = {record["step"] for record in metrics_log.validations(records)}
    return [
        path
        for path in checkpoints.list_checkpoints(run.checkpoints)
        if (step := checkpoints.parse_step(path) or 0) not in validated
        and (every is None or step % every > 0)
    ]


def _newest_checkpoints(run: "directory.RunDirectory", last: int | None) -> list[Path]:
    stops = list_stops(run)
    run.check_not_exported()
    checkpoints.find_checkpoint(run.checkpoints, "last")  # or there is none
    paths = [path for path in checkpoints.list_checkpoints(run.checkpoints) if path not in stops]
    if not paths:
        raise CheckpointError(
            f"{run.checkpoints}: no validated checkpoint yet; resume the training"
        )
    wanted = last or len(paths)
    if len(paths) < wanted:
        raise UsageError(
            f"{run.path}: has {len(paths)} checkpoints, not {wanted}; leave `last` out to average "
            f"these, or train with training.keep_last={wanted}"
        )
    return paths[-wanted:]
