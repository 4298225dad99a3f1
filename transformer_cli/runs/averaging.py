"""Average the weights of several checkpoints."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from transformer_cli.errors import CheckpointError, RunError, UsageError
from transformer_cli.runs.checkpoint import (
    Checkpoint,
    find_checkpoint,
    list_checkpoints,
    parse_step,
    save_average,
)
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.metrics_log import read_records, validations
from transformer_cli.runs.trained_model import model_differences
from transformer_cli.text.tokenizer import fingerprint, have_same_tokenizers


def average_runs(runs: Sequence[RunDirectory], last: int | None) -> tuple[Path, list[Path]]:
    """Average the weights of the ``last`` checkpoints, or of all, of one run or each of several.

    The mean of a training's last checkpoints often translates better than each of them (Junczys-
    Dowmunt et al. 2016, arXiv 1605.04809; Vaswani et al. 2017, section 6.1). Of several runs it
    needs the same initial weights; it goes into the first, whose lock the caller holds. Returned
    are its path and those of the averaged checkpoints.
    """
    first = runs[0]
    for other in runs[1:]:
        if differing := model_differences(first.load_config(), other.load_config()):
            listed = ", ".join(f"{diff.key} is {diff.old} and {diff.new}" for diff in differing)
            raise RunError(
                f"{first.path} and {other.path}: other models ({listed}); no average of them"
            )
        if not have_same_tokenizers(first.tokenizer, other.tokenizer):
            raise RunError(
                f"{first.path} and {other.path}: other tokenizers, so the same weights do not "
                "stand for the same words; no average of them"
            )
    newest = [(run, path) for run in runs for path in _newest(run, last)]
    checkpoints = [Checkpoint.open(path, fingerprint(run.tokenizer)) for run, path in newest]
    averaged = [path for _, path in newest]
    step = max(parse_step(path) or 0 for run, path in newest if run is first)
    state = {"step": step, "averaged": [path.as_posix() for path in averaged]}
    weights, tokenizer = mean(checkpoints), fingerprint(first.tokenizer)
    return save_average(first.checkpoints, weights, state, tokenizer), averaged


def mean(checkpoints: Iterable[Checkpoint]) -> dict[str, Tensor]:
    """Return the mean of each weight, in its dtype; one checkpoint at a time is in memory."""
    sums: dict[str, Tensor] = {}
    kinds: dict[str, tuple[torch.Size, torch.dtype]] = {}
    count = 0
    for checkpoint in checkpoints:
        weights = checkpoint.load_weights()
        if not count:
            kinds = {name: (weight.shape, weight.dtype) for name, weight in weights.items()}
            sums = {name: torch.zeros_like(weight).double() for name, weight in weights.items()}
        for name in sorted(kinds.keys() | weights.keys()):
            weight = weights.get(name)
            if weight is None or kinds.get(name) != (weight.shape, weight.dtype):
                raise CheckpointError(
                    f"{checkpoint.path}: '{name}' is not alike in all checkpoints; "
                    "average those of one model"
                )
            sums[name] += weight
        count += 1
    return {name: (total / count).to(kinds[name][1]) for name, total in sums.items()}


def list_stops(run: RunDirectory) -> list[Path]:
    """Return the checkpoints of stops, by Ctrl-C say: neither validated nor due by save_every."""
    every = run.load_config().training.save_every
    records = read_records(run.metrics)
    if not records:  # a model of another program
        return []
    validated = {record["step"] for record in validations(records)}
    return [
        path
        for path in list_checkpoints(run.checkpoints)
        if (step := parse_step(path) or 0) not in validated and (every is None or step % every > 0)
    ]


def _newest(run: RunDirectory, last: int | None) -> list[Path]:
    stops = list_stops(run)
    run.check_not_hub_model()
    find_checkpoint(run.checkpoints, "last")  # or there is none
    paths = [path for path in list_checkpoints(run.checkpoints) if path not in stops]
    if not paths:
        raise CheckpointError(
            f"{run.checkpoints}: no validated checkpoint yet; resume the training"
        )
    wanted = last or len(paths)
    if len(paths) < wanted:
        raise UsageError(
            f"{run.path}: has {len(paths)} checkpoints, not {wanted}; leave --last out to average "
            f"these, or train with training.keep_last={wanted}"
        )
    return paths[-wanted:]
