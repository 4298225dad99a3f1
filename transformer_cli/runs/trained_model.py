"""Load trained models with their settings and tokenizers, and check those that runs start from."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from transformer_cli.base.errors import CheckpointError, ConfigError
from transformer_cli.base.files import sha256
from transformer_cli.config.differences import differences
from transformer_cli.config.schema import Config
from transformer_cli.runs.checkpoint import MANIFEST, Checkpoint, find_checkpoint
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.protocol import PAD_ID, Tokenizers
from transformer_cli.text.tokenizer import fingerprint, load_tokenizers

if TYPE_CHECKING:
    from transformer_cli.model.transformer import Transformer


@dataclass(frozen=True)
class OpenedModel:
    """A trained model whose weights are not loaded, because importing torch takes a second."""

    config: Config
    tokenizers: Tokenizers
    checkpoint: Checkpoint  # has the weights
    sum: str  # SHA-256 of the checkpoint's file that records the weights' SHA-256
    tokenizer_sum: str  # fingerprint of the tokenizers


@dataclass(frozen=True)
class TrainedModel:
    """A trained model with its settings and tokenizers, on the CPU, in evaluation mode."""

    config: Config
    tokenizers: Tokenizers
    model: "Transformer"
    checkpoint: Path  # the directory of the weights
    sum: str  # as in ``OpenedModel``


def load_trained_model(run: RunDirectory, checkpoint: str) -> TrainedModel:
    """Load an exported model, or a run's checkpoint, named as for ``find_checkpoint``."""
    return load_weights_of(open_trained_model(run, checkpoint))


def open_trained_model(run: RunDirectory, checkpoint: str) -> OpenedModel:
    """Open a checkpoint or an exported model, without torch; see ``load_trained_model``."""
    config, exported = run.load_config(), run.exported
    opened = open_checkpoint(run, checkpoint)
    recorded_in = exported.record if exported else opened.path / MANIFEST
    tokenizers = load_tokenizers(run.tokenizer)
    return OpenedModel(config, tokenizers, opened, sha256(recorded_in), fingerprint(run.tokenizer))


def load_weights_of(opened: OpenedModel) -> TrainedModel:
    """Load the weights of an opened model."""
    import torch

    from transformer_cli.model.transformer import build_model, build_shapes, check_fit, load_weights

    config, tokenizers, path = opened.config, opened.tokenizers, opened.checkpoint.path
    weights = opened.checkpoint.load_weights()
    sizes = tokenizers.src.size, tokenizers.tgt.size
    try:
        # Check this before allocating memory for a model that the weights do not fit.
        check_fit(build_shapes(config.model, *sizes, PAD_ID), weights)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error
    # The model first gets random weights, which must not change the caller's generators.
    is_on = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = [torch.cuda.current_device()] if is_on else []
    with torch.random.fork_rng(devices):
        model = build_model(config.model, *sizes, PAD_ID, config.seed)
    load_weights(model, weights)
    return TrainedModel(config, tokenizers, model.eval(), path, opened.sum)


def open_checkpoint(run: RunDirectory, which: str) -> Checkpoint:
    """Open a checkpoint of a run, or an exported model's weights; see ``load_trained_model``."""
    exported = run.exported
    if exported is None:
        path = find_checkpoint(run.checkpoints, which)
        return Checkpoint.open(path, fingerprint(run.tokenizer))
    if which != "best":
        raise CheckpointError(
            f"`checkpoint` {which}: {run.path} is an exported model, which has only one set of "
            "weights; leave the option out"
        )
    return exported.open_weights()


def check_init(config: Config, run: RunDirectory, overwrite: bool) -> None:
    """Check, before anything is written, that ``run`` can start from the model in ``config.init``.

    A run that resumes from a checkpoint no longer needs ``config.init``.
    """
    if config.init is None or (run.has_checkpoints and not overwrite):
        return
    source = RunDirectory(config.init)
    if source.path.resolve() == run.path.resolve():
        raise ConfigError(
            f"init: {source.path} is the run directory itself; choose another `run_dir`"
        )
    old = source.load_config()
    # A joint vocabulary reads both languages; separate ones are learned for one language each.
    languages = () if config.tokenizer.one_vocabulary else ("data.src_lang", "data.tgt_lang")
    keys = ("tokenizer.", "model.", *languages)
    found = (diff for diff in differences(old, config) if diff.key.startswith(keys))
    if differing := [diff for diff in found if not diff.key.endswith("dropout")]:
        listed = ", ".join(f"{diff.key} {diff.old}, not {diff.new}" for diff in differing)
        raise ConfigError(f"init: {source.path} has {listed}; use the same settings here")
    open_checkpoint(source, "best")
