"""Start or resume a run: which settings may change, what is renamed, and what is written."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import date
from itertools import count
from pathlib import Path

from transformer_cli.base.errors import CheckpointError, ConfigError, CorpusError, RunError
from transformer_cli.base.files import read_json, read_small
from transformer_cli.base.locations import find_files, is_here, is_local, locate, text_path
from transformer_cli.base.messages import log
from transformer_cli.base.text_files import write_text
from transformer_cli.base.writing import TEMPORARY_MARK, remove_leftovers
from transformer_cli.config.differences import Difference, differences
from transformer_cli.config.schema import Config
from transformer_cli.config.setting_tree import iter_leaves, join_keys
from transformer_cli.config.yaml import dump_config
from transformer_cli.runs.checkpoint import Checkpoint, TrainingState, list_checkpoints
from transformer_cli.runs.directory import (
    INHERITED,
    LOCKED,
    UNLOCKED,
    RunDirectory,
    lock_run,
    write_mark,
)

_SHAPES_DATA = ("data.", "tokenizer.", "init")


@contextmanager
def begin_run(run: RunDirectory, config: Config, overwrite: bool) -> Iterator[None]:
    """Initialize a run, and keep it locked while the block runs.

    With ``overwrite``, a run that has checkpoints is renamed, and this is logged; if it has none,
    its tokenizers and encoded text are made again. A run that resumes keeps its old config.yaml
    until ``record_settings``.
    """
    if overwrite and (moved := rename_run(run)):
        log(f"{run.path}: the earlier run is now {moved}")
    with lock_run(run):
        initialize_run(run, config, overwrite)
        yield


def record_settings(run: RunDirectory, config: Config, is_finished: bool) -> None:
    """Write the settings for the rest of the training to config.yaml, after all checks.

    If the training ``is_finished``, keep the settings that the model was trained with, so that the
    file, and a model card, do not describe a training that never happened.
    """
    if is_finished and run.config.is_file():
        trained, kept = run.load_config(), ("seed", "init", "model", "training")
        config = config.model_copy(update={name: getattr(trained, name) for name in kept})
    with _name_run_in_error(run):
        _record(run, config)


def _record(run: RunDirectory, config: Config) -> None:
    # run.json comes first, so that the directory is known as a run whenever the process dies.
    write_mark(run.path, config)
    text = dump_config(config)
    if not run.config.is_file() or read_small(run.config) != text.encode():
        write_text(run.config, text)
    if not run.has_checkpoints:
        _inherit(run, config)


def _inherit(run: RunDirectory, config: Config) -> None:
    """Copy the ``INHERITED`` files of the run that ``init`` names, because it may be deleted."""
    for name in INHERITED:
        (run.path / name).unlink(missing_ok=True)
        record = None if config.init is None else read_json(config.init / name)
        if record is not None:
            write_text(run.path / name, json.dumps(record, indent=1) + "\n")


def rename_run(run: RunDirectory) -> Path | None:
    """Rename a run to NAME.DATE, so that another can start in its place; return the new path.

    Return None if it has no checkpoint, so that everything in it can be made again. Nothing is
    deleted or ever moved back; that is up to the user.
    """
    run.check_is_run_or_empty()
    if not (run.checkpoints.is_dir() and any(run.checkpoints.iterdir())):
        return None
    # For a link, rename its target. A path such as '..' has no name to add a date to.
    path = run.path.resolve() if run.path.is_symlink() or not run.path.name.strip(".") else run.path
    if Path.cwd().is_relative_to(path.resolve()):
        raise RunError(
            f"{run.path}: is the working directory or contains it, so it cannot be renamed; run "
            "the command from elsewhere"
        )
    names = (f"{path.name}.{date.today()}{f'-{n}' if n > 1 else ''}" for n in count(1))
    moved = next(path.with_name(name) for name in names if not os.path.lexists(path.parent / name))
    # Windows cannot rename a directory with an open file, so another process' lock prevents it
    # anyway.
    with lock_run(run) if sys.platform != "win32" else nullcontext():
        try:
            path.rename(moved)
            path.mkdir()  # a link may point to it
        except OSError as error:
            raise RunError(
                f"{run.path}: cannot be renamed to {moved}: {error.strerror}; rename it yourself"
            ) from error
    return moved


def initialize_run(run: RunDirectory, config: Config, overwrite: bool = False) -> None:
    """Initialize a run directory, which the caller has locked; see ``begin_run``."""
    with _name_run_in_error(run):
        run.check_is_run_or_empty()
        run.path.mkdir(parents=True, exist_ok=True)
        # We hold the lock, so these temporary files are from a dead process.
        remove_leftovers(run.path, LOCKED, UNLOCKED)
        for directory in filter(Path.is_dir, (run.checkpoints, run.encoded, run.corpus)):
            remove_leftovers(directory, ours=("*",))
        if run.config.is_file():
            check_resumable(run, config)
            # Without a checkpoint, any setting may change: data of other settings is made again.
            if not run.has_checkpoints and (overwrite or is_data_outdated(run, config)):
                run.remove_data()
        if not run.has_checkpoints or not run.config.is_file():
            _record(run, config)
        run.checkpoints.mkdir(exist_ok=True)
        # Checking permissions is not enough: root has them even on a read-only disk.
        trial = run.checkpoints / f"trial{TEMPORARY_MARK}{os.getpid()}"
        trial.mkdir()
        trial.rmdir()


@contextmanager
def _name_run_in_error(run: RunDirectory) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        named = Path(error.filename or run.path)
        named = named.parent if TEMPORARY_MARK in named.name else named
        where = named if named.is_relative_to(run.path) else run.path
        raise RunError(f"{where}: cannot be written: {error.strerror or error}") from error


# --- what resuming compares -----------------------------------------------------------------------

# A run with checkpoints resumes with the settings that it was trained with, except those that the
# schema marks as ``may_change``. Files may have moved, or may have a checksum now. Contents are
# compared where they are read: text and tokenizers when the data is prepared
# (training/preparation.py), and a step's number of batches in training/trainer.py.


def check_resumable(run: RunDirectory, config: Config) -> None:
    """Check that training can resume from the run's checkpoints, if it has any, with ``config``."""
    if changed := describe_refused(run, config):
        raise ConfigError(
            f"{run.path}: {changed}; "
            "use the old settings, choose another `run_dir`, or start again with `overwrite`"
        )


def describe_refused(run: RunDirectory, config: Config) -> str:
    """Return a message about settings that differ from the run's but must not, or ''."""
    changed = _fixed_differences(run, config) if run.has_checkpoints else []
    return f"trained with other settings ({'; '.join(map(str, changed))})" if changed else ""


def is_data_outdated(run: RunDirectory, config: Config) -> bool:
    """Return whether tokenizers and encoded text must be made again, as their settings changed.

    After the first checkpoint, such settings must not change.
    """
    if run.has_checkpoints:
        return False
    return any(diff.key.startswith(_SHAPES_DATA) for diff in _fixed_differences(run, config))


def _fixed_differences(run: RunDirectory, config: Config) -> list[Difference]:
    """Return the differences in settings that must not change when a run resumes."""
    old = run.load_config()
    leaves = iter_leaves(old.model_dump(), into_lists=True)
    paths = {join_keys(keys) for keys, value in leaves if isinstance(value, Path)}
    return [
        each
        for each in differences(old, config)
        if not each.may_change
        # A checksum may be added after the first download has shown it.
        and not (each.key.endswith("sha256") and each.old is None)
        and not (each.key in paths and isinstance(each.new, str) and _is_gone(str(each.old)))
    ]


def _is_gone(path: str) -> bool:
    with suppress(CorpusError):  # no file matches its wildcards
        place = text_path(path)
        return is_here(place) and not any(map(_is_there, find_files(place)))
    return True


def _is_there(path: Path) -> bool:
    if is_local(path):
        return path.exists()
    with locate(path).open(path):  # CorpusError: nothing is there
        return True


def load_newest_state(run: RunDirectory) -> TrainingState | None:
    """Return the state of a run's newest checkpoint, or None if there is none or it is damaged."""
    checkpoints = list_checkpoints(run.checkpoints)
    try:
        return Checkpoint.open(checkpoints[-1]).load_state() if checkpoints else None
    except CheckpointError:  # resuming the run reports this
        return None
