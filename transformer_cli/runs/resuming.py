"""Which changed settings a run can be resumed with."""

from pathlib import Path

from transformer_cli.config.data_schema import PATH_KEYS
from transformer_cli.config.differences import MAY_CHANGE, Difference, differences
from transformer_cli.config.schema import Config
from transformer_cli.data.readers.paths import matching_files
from transformer_cli.errors import ConfigError, CorpusError
from transformer_cli.runs.checkpoint_directory import list_checkpoints, records_batches_per_step
from transformer_cli.runs.directory import RunDirectory

_SHAPES_DATA = ("data.", "tokenizer.", "init")
# Files may have moved, for instance with the whole checkout.
_SPLITS = ("data.train.", "data.val.")
_FILES = [
    *("data.more", "data.sources", "data.replay.sources", "init"),
    *(f"tokenizer.{side}{key}" for side in ("", "src_", "tgt_") for key in ("model", "file")),
]


def check_resumable(run: RunDirectory, config: Config) -> None:
    """Check that training can resume from the run's checkpoints with ``config``.

    Raises:
        ConfigError: it cannot.
    """
    if not list_checkpoints(run.checkpoints):
        return
    if changed := [each for each in _fixed_differences(run, config) if not _has_moved(each)]:
        listed = "; ".join(map(str, changed))
        raise ConfigError(
            f"{run.path}: trained with other settings ({listed}); "
            "go on with the old ones, choose another --run-dir, or start anew with --overwrite"
        )


def is_data_outdated(run: RunDirectory, config: Config) -> bool:
    """Return whether tokenizers and encoded text are of other settings and must be made again.

    That is only possible before the first checkpoint.
    """
    if list_checkpoints(run.checkpoints):
        return False
    return any(each.key.startswith(_SHAPES_DATA) for each in _fixed_differences(run, config))


def _fixed_differences(run: RunDirectory, config: Config) -> list[Difference]:
    """Return the differences in settings that may not change on resuming."""
    # Where a checkpoint records the batches per step, Trainer.restore checks `accumulate`.
    is_recorded = records_batches_per_step(run.checkpoints)
    may_change = tuple(key for key in MAY_CHANGE if is_recorded or key != "training.accumulate")
    return [
        each
        for each in differences(run.load_config(), config)
        if not each.key.startswith(may_change)
    ]


def _has_moved(difference: Difference) -> bool:
    """Return whether paths differ only because no file is left at the old ones."""
    if not _has_paths(difference.key):
        return False
    old, new = _paths(difference.old), _paths(difference.new)
    if _without_paths(difference.old) != _without_paths(difference.new):
        return False
    return 0 < len(old) == len(new) and not any(map(_is_there, old))


def _has_paths(key: str) -> bool:
    """Return whether a setting is a path, or a list of sources."""
    return key in _FILES or (key.startswith(_SPLITS) and key.rpartition(".")[2] in PATH_KEYS)


def _is_there(path: str) -> bool:
    """Return whether a file is at a path, which may have wildcards."""
    try:
        return any(file.exists() for file in matching_files(Path(path)))
    except CorpusError:
        return False


def _paths(value: object) -> list[str]:
    if isinstance(value, list):  # of sources
        return [source[key] for source in value for key in source if key in PATH_KEYS]
    return [value] if isinstance(value, str) else []


def _without_paths(value: object) -> object:
    """Return the settings of sources that are no paths; None for a path alone."""
    if not isinstance(value, list):
        return None
    return [{key: source[key] for key in source if key not in PATH_KEYS} for source in value]
