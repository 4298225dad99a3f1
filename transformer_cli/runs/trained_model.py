"""Load a trained model with its settings and tokenizers, from a run or a Hub model."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from transformer_cli.config.schema import Config
from transformer_cli.errors import CheckpointError, RunError
from transformer_cli.files import sha256
from transformer_cli.runs import hub_model
from transformer_cli.runs.checkpoint import MANIFEST, MODEL, Checkpoint
from transformer_cli.runs.checkpoint_directory import find_checkpoint, list_checkpoints
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.tokenizer import Tokenizers, fingerprint, load_tokenizers
from transformer_cli.text.vocabulary import PAD_ID

if TYPE_CHECKING:
    from transformer_cli.model.transformer import Transformer


@dataclass(frozen=True)
class OpenedModel:
    """A trained model without its weights, which torch takes a second to load.

    Attributes:
        config: the run's settings.
        tokenizers: the run's.
        checkpoint: where the weights are.
        sum: SHA-256 of the file in it that records the weights' SHA-256.
        tokenizer_sum: fingerprint of the tokenizers.
    """

    config: Config
    tokenizers: Tokenizers
    checkpoint: Checkpoint
    sum: str
    tokenizer_sum: str


@dataclass(frozen=True)
class TrainedModel:
    """A trained model with its settings and tokenizers.

    Attributes:
        config: the run's settings.
        tokenizers: the run's.
        model: on the CPU, in evaluation mode.
        checkpoint: the directory of the weights.
        sum: SHA-256 of the file in it that records the weights' SHA-256.
    """

    config: Config
    tokenizers: Tokenizers
    model: "Transformer"
    checkpoint: Path
    sum: str


def load_trained_model(run: RunDirectory, checkpoint: str) -> TrainedModel:
    """Load a trained run, or a Hub model.

    Args:
        run: its directory.
        checkpoint: 'best', 'last', 'average' or a checkpoint's path.

    Raises:
        RunError, TokenizerError, CheckpointError: something is missing or damaged.
    """
    return load_weights_of(open_trained_model(run, checkpoint))


def open_trained_model(run: RunDirectory, checkpoint: str) -> OpenedModel:
    """Open what ``load_trained_model`` loads, without torch."""
    config = run.load_config()
    if (
        not run.tokenizer.is_dir()
        and not run.is_hub_model
        and not list_checkpoints(run.checkpoints)
    ):
        raise RunError(f"{run.path}: not trained yet; train first: transformer-cli train CONFIG")
    tokenizers = load_tokenizers(run.tokenizer)
    opened = open_checkpoint(run, checkpoint)
    recorded_in = opened.path / (hub_model.CONFIG if run.is_hub_model else MANIFEST)
    return OpenedModel(config, tokenizers, opened, sha256(recorded_in), fingerprint(run.tokenizer))


def load_weights_of(opened: OpenedModel) -> TrainedModel:
    """Load the weights of an opened model.

    Raises:
        CheckpointError: they are missing or damaged, or not of this model.
    """
    import torch

    from transformer_cli.model.transformer import Transformer, build_model, check_fit, load_weights

    config, tokenizers, path = opened.config, opened.tokenizers, opened.checkpoint.path
    weights = opened.checkpoint.load_weights()
    sizes = tokenizers.src.size, tokenizers.tgt.size
    try:
        # Before memory is allocated for a model that its weights do not fit.
        with torch.device("meta"):
            check_fit(Transformer(config.model, *sizes, PAD_ID), weights)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error
    # A model is made with random weights first, which are not to touch the caller's generators.
    is_on = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = [torch.cuda.current_device()] if is_on else []
    with torch.random.fork_rng(devices):
        model = build_model(config.model, *sizes, PAD_ID, config.seed)
    load_weights(model, weights)
    return TrainedModel(config, tokenizers, model.eval(), path, opened.sum)


def open_checkpoint(run: RunDirectory, which: str) -> Checkpoint:
    """Open a checkpoint of a run, or the weights of a Hub model; see ``load_trained_model``.

    Raises:
        RunError, TokenizerError, CheckpointError: something is missing or damaged.
    """
    if not run.is_hub_model:
        path = find_checkpoint(run.checkpoints, which)
        return Checkpoint.open(path, fingerprint(run.tokenizer))
    if which != "best":
        raise CheckpointError(
            f"--checkpoint {which}: {run.path} is an exported model, which has its weights only; "
            "leave the option out"
        )
    config, _ = hub_model.read_hub_config(run.path)
    if fingerprint(run.tokenizer) != config.sha256.tokenizer:
        raise CheckpointError(
            f"{run.tokenizer}: not the tokenizer that {hub_model.CONFIG} records; "
            "get the model again"
        )
    return Checkpoint(run.path, {MODEL: config.sha256.weights}, "get the model again")
