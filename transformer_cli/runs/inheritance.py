"""What a run takes over from an earlier one, and when it cannot."""

from torch import Tensor

from transformer_cli.config.differences import Difference, differences
from transformer_cli.config.schema import Config
from transformer_cli.errors import ConfigError
from transformer_cli.runs.checkpoint import Checkpoint, find_checkpoint
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.tokenizer import fingerprint


def model_differences(old: Config, new: Config) -> list[Difference]:
    """The settings of the model that differ in what weights mean: all but dropout's."""
    return [
        each
        for each in differences(old, new)
        if each.key.startswith("model.") and not each.key.endswith("dropout")
    ]


def refuse_other_kind(config: Config, source: RunDirectory) -> None:
    """Make sure that the weights and the tokenizer of ``source`` fit ``config``.

    Raises:
        RunError: it is no run.
        ConfigError: its model or its tokenizer is of another kind.
    """
    old = source.load_config()
    tokenizer = [each for each in differences(old, config) if each.key.startswith("tokenizer.")]
    differing = [*tokenizer, *model_differences(old, config)]
    if differing:
        listed = ", ".join(f"{each.key} {each.old}, not {each.new}" for each in differing)
        raise ConfigError(f"init: {source.path} has {listed}; take the same settings here")


def inherited_weights(config: Config, source: RunDirectory) -> dict[str, Tensor]:
    """The best weights of ``source``, which fits ``config``.

    Raises:
        RunError, ConfigError, TokenizerError, CheckpointError: there are none, or not of this kind.
    """
    refuse_other_kind(config, source)
    path = find_checkpoint(source.checkpoints, "best")
    return Checkpoint.open(path, fingerprint(source.tokenizer)).load_weights()
