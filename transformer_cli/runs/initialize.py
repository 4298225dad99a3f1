"""Initialize a run directory, for a new run or to resume one."""

import os
from pathlib import Path

from transformer_cli.compression import write_text
from transformer_cli.config.origins import Origins, dump_origins, load_origins, trace_origins
from transformer_cli.config.schema import Config
from transformer_cli.config.yaml import dump_config
from transformer_cli.errors import RunError
from transformer_cli.files import TEMPORARY_MARK, read_small, remove_leftovers
from transformer_cli.runs import contents
from transformer_cli.runs.checkpoint_writer import finish_replacing
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.mark import write_mark
from transformer_cli.runs.overwrite import set_aside
from transformer_cli.runs.resuming import check_resumable, is_data_outdated


def initialize_run(
    run: RunDirectory, config: Config, overwrite: bool = False, origins: Origins | None = None
) -> None:
    """Initialize a run directory; keep an earlier session's files unless ``overwrite``.

    Args:
        run: the run directory, locked.
        config: the settings to train with.
        overwrite: set an earlier run aside; see overwrite.py.
        origins: where the settings come from, to be recorded.

    Raises:
        RunError: it cannot be written, or holds something else.
        ConfigError: it holds a run that cannot be resumed with these settings.
    """
    try:
        _initialize(run, config, overwrite, origins or {})
    except OSError as error:
        named = Path(error.filename or run.path)
        where = named if named.is_relative_to(run.path) else run.path
        raise RunError(f"{where}: cannot be written: {error.strerror or error}") from error


def _initialize(run: RunDirectory, config: Config, overwrite: bool, origins: Origins) -> None:
    run.check_is_run_or_empty()
    # We hold the lock, so temporary files in our places are a dead process'.
    if run.path.is_dir():
        remove_leftovers(run.path, [path.name for path in run.locked_paths], [run.report.name])
    for name, patterns in contents.WRITTEN_WHOLE.items():
        if (run.path / name).is_dir():
            remove_leftovers(run.path / name, patterns, ())
    if run.checkpoints.is_dir():
        finish_replacing(run.checkpoints)
    # Before the run is set aside: a new run may be started from its config.yaml.
    origins = trace_origins(origins, run.config, load_origins(run.origins))
    if run.config.is_file() and not overwrite:
        check_resumable(run, config)
        # As if overwritten: tokenizers of these settings may turn out to be impossible.
        overwrite = is_data_outdated(run, config)
    # The mark is written first, so that the directory is known as a run whenever the process dies.
    run.path.mkdir(parents=True, exist_ok=True)
    write_mark(run.path)
    if overwrite:
        set_aside(run.path)
    text = dump_config(config)
    if not run.config.is_file() or read_small(run.config) != text.encode():
        write_text(run.config, text)
    # The first session's origins are kept.
    if origins and not load_origins(run.origins):
        write_text(run.origins, dump_origins(origins, text))
    run.checkpoints.mkdir(exist_ok=True)
    _check_writable(run.checkpoints)


def _check_writable(directory: Path) -> None:
    # Permissions are not enough: root has them on a disk that is mounted read-only.
    trial = directory / f"trial{TEMPORARY_MARK}{os.getpid()}"
    try:
        trial.mkdir()
        trial.rmdir()
    except OSError as error:
        error.filename = str(directory)
        raise
