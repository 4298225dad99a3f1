"""What a run takes over from an earlier one, and when it cannot."""

from torch import Tensor

from transformer_cli.config.differences import Difference, differences
from transformer_cli.config.schema import Config
from transformer_cli.errors import ConfigError
from transformer_cli.runs.checkpoint import Checkpoint, list_checkpoints
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained import open_checkpoint


def model_differences(old: Config, new: Config) -> list[Difference]:
    """The settings of the model that differ in what weights mean: all but dropout's."""
    return [
        each
        for each in differences(old, new)
        if each.key.startswith("model.") and not each.key.endswith("dropout")
    ]


def check_init(config: Config, run: RunDirectory, overwrite: bool) -> None:
    """Make sure, before anything is written, that ``run`` can start from ``config.init``.

    A run that goes on from a checkpoint is past that: what it started from may be gone.

    Args:
        config: the settings to run with.
        run: the run directory, in whatever state.
        overwrite: whether what it holds of a run is to be discarded.

    Raises:
        ConfigError: it is the run directory itself, or its model or tokenizer is of another kind.
        RunError, TokenizerError, CheckpointError: it is no run, or has nothing to start from.
    """
    if config.init is None or (list_checkpoints(run.checkpoints) and not overwrite):
        return
    source = RunDirectory(config.init)
    if source.path.resolve() == run.path.resolve():
        raise ConfigError(
            f"init: {source.path} is the run directory itself; choose another with --run-dir"
        )
    _check_kind(config, source)
    _best(source)


def inherited_weights(source: RunDirectory) -> dict[str, Tensor]:
    """The best weights of ``source``.

    Raises:
        TokenizerError, CheckpointError: there are none, or they are damaged.
    """
    return _best(source).load_weights()


def _best(source: RunDirectory) -> Checkpoint:
    return open_checkpoint(source, "best")


def _check_kind(config: Config, source: RunDirectory) -> None:
    old = source.load_config()
    kinds: tuple[str, ...] = ("tokenizer.",)
    # A joint vocabulary reads whatever it is given; others are made for their side's language.
    if not config.tokenizer.one_vocabulary:
        kinds = (*kinds, "data.src_lang", "data.tgt_lang")
    tokenizer = [each for each in differences(old, config) if each.key.startswith(kinds)]
    differing = [*tokenizer, *model_differences(old, config)]
    if differing:
        listed = ", ".join(f"{each.key} {each.old}, not {each.new}" for each in differing)
        raise ConfigError(f"init: {source.path} has {listed}; take the same settings here")
