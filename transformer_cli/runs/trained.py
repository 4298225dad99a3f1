"""What a training has made, read from its run: settings, tokenizers and weights."""

from dataclasses import dataclass
from pathlib import Path

from transformer_cli.config.schema import Config
from transformer_cli.files import sha256
from transformer_cli.model.transformer import Transformer, build_model
from transformer_cli.model.weights import load_weights
from transformer_cli.runs.checkpoint import MANIFEST, Checkpoint, find_checkpoint
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
    """

    config: Config
    tokenizers: Tokenizers
    model: Transformer
    checkpoint: Path

    @property
    def sum(self) -> str:
        """SHA-256 of the manifest that the weights were loaded by."""
        return sha256(self.checkpoint / MANIFEST)


def load_trained(run: RunDirectory, checkpoint: str) -> Trained:
    """Read a trained run.

    Args:
        run: the run's directory.
        checkpoint: 'best', 'last', 'average' or a checkpoint's path.

    Raises:
        RunError, TokenizerError, CheckpointError: something is missing or damaged.
    """
    config = run.load_config()
    tokenizers = load_tokenizers(run.tokenizer)
    path = find_checkpoint(run.checkpoints, checkpoint)
    weights = Checkpoint.open(path, fingerprint(run.tokenizer)).load_weights()
    model = build_model(config.model, tokenizers.src.size, tokenizers.tgt.size, PAD_ID, config.seed)
    load_weights(model, weights)
    return Trained(config, tokenizers, model.eval(), path)
