"""Initial weights and tokenizers from an earlier run, named by ``init``."""

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from transformer_cli.config.differences import Difference, differences
from transformer_cli.config.origins import Origins
from transformer_cli.config.schema import Config
from transformer_cli.errors import ConfigError
from transformer_cli.runs.checkpoint_directory import list_checkpoints
from transformer_cli.runs.contents import CONFIG
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.mark import is_run
from transformer_cli.runs.trained_model import open_checkpoint


def model_differences(old: Config, new: Config) -> list[Difference]:
    """Return the model settings that differ, dropout excluded."""
    return [
        each
        for each in differences(old, new)
        if each.key.startswith("model.") and not each.key.endswith("dropout")
    ]


def check_init(config: Config, run: RunDirectory, overwrite: bool) -> None:
    """Check, before anything is written, that ``run`` can start from ``config.init``.

    A run that resumes from a checkpoint no longer needs it.

    Raises:
        ConfigError: ``init`` is the run directory itself, or has another model or tokenizer.
        RunError, TokenizerError, CheckpointError: ``init`` is no trained run.
    """
    if config.init is None or (list_checkpoints(run.checkpoints) and not overwrite):
        return
    source = RunDirectory(config.init)
    if source.path.resolve() == run.path.resolve():
        raise ConfigError(
            f"init: {source.path} is the run directory itself; choose another with --run-dir"
        )
    _check_same_settings(config, source)
    open_checkpoint(source, "best")


def describe_inherited_init(config: Config, origins: Origins, bases: Sequence[Path]) -> str | None:
    """Return a hint if a configuration builds on a run's settings, but not on its weights.

    Args:
        config: the settings.
        origins: where they were written.
        bases: the files that they build on, the nearest first.
    """
    base = next((base for base in bases if base.name == CONFIG and is_run(base.parent)), None)
    origin = origins.get("init")
    if base is None or (origin is not None and Path(origin.source) != base):
        return None
    weights = "random weights" if config.init is None else f"the weights of {config.init}"
    return (
        f"init: as in the base {base}, so training starts from {weights}; init: {base.parent} "
        "starts from that run's"
    )


def load_init_weights(source: RunDirectory) -> dict[str, Tensor]:
    """Return the best weights of ``source``.

    Raises:
        TokenizerError, CheckpointError: they are missing or damaged.
    """
    return open_checkpoint(source, "best").load_weights()


def _check_same_settings(config: Config, source: RunDirectory) -> None:
    old = source.load_config()
    keys: tuple[str, ...] = ("tokenizer.",)
    # A joint vocabulary reads both languages; separate ones are learned for one language each.
    if not config.tokenizer.one_vocabulary:
        keys = (*keys, "data.src_lang", "data.tgt_lang")
    tokenizer = [each for each in differences(old, config) if each.key.startswith(keys)]
    differing = [*tokenizer, *model_differences(old, config)]
    if differing:
        listed = ", ".join(f"{each.key} {each.old}, not {each.new}" for each in differing)
        raise ConfigError(f"init: {source.path} has {listed}; take the same settings here")
