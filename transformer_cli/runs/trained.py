"""What a training has made, read from its run or from where it is shared: all that it takes."""

from dataclasses import dataclass
from pathlib import Path

import torch

from transformer_cli.config.schema import Config
from transformer_cli.errors import CheckpointError, RunError
from transformer_cli.files import sha256
from transformer_cli.model.transformer import Transformer, build_model
from transformer_cli.model.weights import check_fit, load_weights
from transformer_cli.runs import shared
from transformer_cli.runs.checkpoint import (
    MANIFEST,
    MODEL,
    Checkpoint,
    find_checkpoint,
    list_checkpoints,
)
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.tokenizer import Tokenizers, fingerprint, load_tokenizers
from transformer_cli.text.vocabulary import PAD_ID


@dataclass(frozen=True)
class Trained:
    """A trained model and all that it takes to use it.

    Attributes:
        config: the run's settings.
        tokenizers: the run's.
        model: on the CPU, in evaluation mode.
        checkpoint: the directory that the weights were read from.
        sum: SHA-256 of the file in it that tells the weights' own.
    """

    config: Config
    tokenizers: Tokenizers
    model: Transformer
    checkpoint: Path
    sum: str


def load_trained(run: RunDirectory, checkpoint: str) -> Trained:
    """Read a trained run, or a model as it is shared.

    Args:
        run: its directory.
        checkpoint: 'best', 'last', 'average' or a checkpoint's path.

    Raises:
        RunError, TokenizerError, CheckpointError: something is missing or damaged.
    """
    config = run.load_config()
    if not run.tokenizer.is_dir() and not run.is_shared and not list_checkpoints(run.checkpoints):
        raise RunError(f"{run.path}: not trained yet; train first: transformer-cli train CONFIG")
    tokenizers = load_tokenizers(run.tokenizer)
    opened = open_checkpoint(run, checkpoint)
    weights = opened.load_weights()
    sizes = tokenizers.src.size, tokenizers.tgt.size
    try:
        # Before memory is taken for a model whose settings are not those of its weights.
        with torch.device("meta"):
            check_fit(Transformer(config.model, *sizes, PAD_ID), weights)
    except CheckpointError as error:
        raise CheckpointError(f"{opened.path}: {error}") from error
    model = build_model(config.model, *sizes, PAD_ID, config.seed)
    load_weights(model, weights)
    told_by = opened.path / (shared.CONFIG if run.is_shared else MANIFEST)
    return Trained(config, tokenizers, model.eval(), opened.path, sha256(told_by))


def open_checkpoint(run: RunDirectory, which: str) -> Checkpoint:
    """The weights of a run that are asked for, or those of a shared model; see ``load_trained``.

    Raises:
        RunError, TokenizerError, CheckpointError: something is missing or damaged.
    """
    if not run.is_shared:
        path = find_checkpoint(run.checkpoints, which)
        return Checkpoint.open(path, fingerprint(run.tokenizer))
    if which != "best":
        raise CheckpointError(
            f"--checkpoint {which}: {run.path} is an exported model, which has its weights only; "
            "leave the option out"
        )
    description, _ = shared.read_description(run.path)
    if fingerprint(run.tokenizer) != description.sha256.tokenizer:
        raise CheckpointError(
            f"{run.tokenizer}: not the tokenizer that {shared.CONFIG} tells of; get the model again"
        )
    return Checkpoint(run.path, {MODEL: description.sha256.weights}, "get the model again")
