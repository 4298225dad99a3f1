"""Begin a run, or go on with one: what may have changed, what is renamed, and what is written."""

import json
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from datetime import date
from itertools import count
from pathlib import Path
from typing import NamedTuple

from transformer_cli.base import registry
from transformer_cli.base.compression import write_text
from transformer_cli.base.errors import (
    CheckpointError,
    ConfigError,
    CorpusError,
    RunError,
    SuspectTextError,
    TokenizerError,
)
from transformer_cli.base.files import read_json, read_small
from transformer_cli.base.locations import exists, fetched_from, find_files, text_path
from transformer_cli.base.writing import TEMPORARY_MARK, remove_leftovers
from transformer_cli.config.differences import Difference, as_yaml, differences
from transformer_cli.config.origins import Origins, dump_origins, load_origins, trace_origins
from transformer_cli.config.schema import Config
from transformer_cli.config.yaml import dump_config
from transformer_cli.data.sources import open_kind
from transformer_cli.runs.checkpoint import Checkpoint, State, list_checkpoints
from transformer_cli.runs.directory import (
    CONFIG,
    CORPUS,
    LOCK,
    LOCKED,
    MARK,
    UNLOCKED,
    WRITTEN_WHOLE,
    RunDirectory,
    lock_run,
    write_mark,
)

_SHAPES_DATA = ("data.", "tokenizer.", "init")


@contextmanager
def begin_run(
    run: RunDirectory,
    config: Config,
    overwrite: bool,
    origins: Origins,
    log: Callable[[str], object],
    is_training: bool = True,
) -> Iterator[None]:
    """Lock and initialize a run while the block runs.

    With ``overwrite``, a run that has checkpoints is renamed, which ``log`` is told, and the data
    of one without is made anew. Where the block fails, or ``is_training`` is false, a run's
    settings stay those that its checkpoints were trained with, unless it has new ones.
    """
    # Before an earlier run is renamed: a new one may be started from its config.yaml.
    origins = trace_origins(origins, run.config, load_origins(run.origins))
    if overwrite and (moved := rename_run(run)):
        log(f"{run.path}: the earlier run is now {moved}")
    is_new = not run.path.exists()
    with lock_run(run):
        before, begun = set(list_checkpoints(run.checkpoints)), _read_begun(run)
        is_recorded = False
        try:
            initialize_run(run, config, overwrite, origins)
            yield
            is_recorded = is_training
        except BaseException as error:
            # Text that is insisted on later is not to be prepared again.
            is_impossible = isinstance(error, (ConfigError, CorpusError, TokenizerError))
            if is_new and is_impossible and not isinstance(error, SuspectTextError):
                _remove_beginning(run)
            raise
        finally:
            if not is_recorded and not set(list_checkpoints(run.checkpoints)) - before:
                _restore_begun(begun)


def _read_begun(run: RunDirectory) -> dict[Path, bytes]:
    """Return the settings that a run was trained with, and where they come from, by their files."""
    begun: dict[Path, bytes] = {}
    if list_checkpoints(run.checkpoints):
        for path in (run.config, run.origins):
            with suppress(OSError):
                begun[path] = read_small(path)
    return begun


def _restore_begun(begun: Mapping[Path, bytes]) -> None:
    with suppress(OSError):
        for path, data in begun.items():
            if read_small(path) != data:
                write_text(path, data.decode())


def _remove_beginning(run: RunDirectory) -> None:
    """Remove a run whose settings or text turned out to be impossible, as far as it is ours."""
    with suppress(RunError, OSError):
        run.remove_data()
        run.checkpoints.rmdir()
        # The mark goes late, so that a run is known as one if the process dies meanwhile, and the
        # lock last: from then on, another process may begin a run.
        records = [run.path / name for name in LOCKED if name not in (CONFIG, MARK, LOCK)]
        for path in (*records, run.config, run.path / MARK, run.lock):
            if path.is_file():
                path.unlink()
        run.path.rmdir()


def rename_run(run: RunDirectory) -> Path | None:
    """Rename a run to NAME.DATE, so that another can begin in its place; return where it is.

    None: it has no checkpoint, and so nothing that cannot be made again. Nothing is deleted, and
    nothing is ever moved back: that is up to the user.
    """
    run.check_is_run_or_empty()
    if not (run.checkpoints.is_dir() and any(run.checkpoints.iterdir())):
        return None
    # Of a link, what it leads to; and '..' has no name to add a date to.
    path = run.path.resolve() if run.path.is_symlink() or not run.path.name.strip(".") else run.path
    if Path.cwd().is_relative_to(path.resolve()):
        raise RunError(
            f"{run.path}: is the working directory, or above it, and would be renamed; start from "
            "elsewhere"
        )
    names = (f"{path.name}.{date.today()}{f'-{n}' if n > 1 else ''}" for n in count(1))
    moved = next(path.with_name(name) for name in names if not os.path.lexists(path.parent / name))
    # Windows renames no directory in which a file is open, so there another process' lock itself is
    # in the way.
    with lock_run(run) if sys.platform != "win32" else nullcontext():
        try:
            path.rename(moved)
            path.mkdir()  # a link leads to it
        except OSError as error:
            raise RunError(
                f"{run.path}: cannot be renamed to {moved}: {error.strerror}; rename it yourself"
            ) from error
    return moved


def initialize_run(
    run: RunDirectory, config: Config, overwrite: bool = False, origins: Origins | None = None
) -> None:
    """Initialize a run directory, which the caller has locked; see ``begin_run``."""
    try:
        run.check_is_run_or_empty()
        _remove_outdated(run, config, overwrite)
        # The mark is written first, so that the directory is known as a run whenever the process
        # dies.
        run.path.mkdir(parents=True, exist_ok=True)
        write_mark(run.path, config)
        text = dump_config(config)
        if not run.config.is_file() or read_small(run.config) != text.encode():
            write_text(run.config, text)
        # The first session's origins are kept.
        if origins and not load_origins(run.origins):
            write_text(run.origins, dump_origins(origins, text))
        run.checkpoints.mkdir(exist_ok=True)
        # Permissions are not enough: root has them on a disk that is mounted read-only.
        trial = run.checkpoints / f"trial{TEMPORARY_MARK}{os.getpid()}"
        trial.mkdir()
        trial.rmdir()
    except OSError as error:
        named = Path(error.filename or run.path)
        named = named.parent if TEMPORARY_MARK in named.name else named
        where = named if named.is_relative_to(run.path) else run.path
        raise RunError(f"{where}: cannot be written: {error.strerror or error}") from error


def record_finished(run: RunDirectory, config: Config, trained: Config) -> Config:
    """Record and return a finished run's settings: as it was trained, else those of ``config``."""
    # Or the record, and a model card, would tell of a training that never was.
    as_trained = {name: getattr(trained, name) for name in ("seed", "init", "model", "training")}
    recorded = config.model_copy(update=as_trained)
    write_text(run.config, dump_config(recorded))
    return recorded


def _remove_outdated(run: RunDirectory, config: Config, overwrite: bool) -> None:
    # We hold the lock, so temporary files in our places are a dead process'.
    if run.path.is_dir():
        remove_leftovers(run.path, LOCKED, UNLOCKED)
    for name, patterns in WRITTEN_WHOLE.items():
        if (run.path / name).is_dir():
            remove_leftovers(run.path / name, patterns, ())
    if run.config.is_file():
        check_resumable(run, config)
        # Without a checkpoint, no setting binds: what depends on others is made anew.
        if not list_checkpoints(run.checkpoints) and (overwrite or is_data_outdated(run, config)):
            run.remove_data()


def check_resumable(run: RunDirectory, config: Config) -> None:
    """Check that training can resume from the run's checkpoints, if it has any, with ``config``."""
    if changed := describe_refused(run, config):
        raise ConfigError(
            f"{run.path}: {changed}; "
            "go on with the old ones, choose another `run_dir`, or start again with `overwrite`"
        )


def describe_refused(run: RunDirectory, config: Config) -> str:
    """Return which settings differ from a run's that may not; '': it can be resumed."""
    if not list_checkpoints(run.checkpoints):
        return ""
    changing = _fixed_differences(run, config)
    settings = [each.model_dump() for each in (run.load_config(), config)] if changing else []
    paths = set(_list_paths(settings))
    changed = [str(diff) for diff in changing if not _has_moved(diff, paths)]
    return f"trained with other settings ({'; '.join(changed)})" if changed else ""


class Extension(NamedTuple):
    """How other settings would train a complete run further."""

    state: State
    trained: Config
    changed: list[Difference]

    def __str__(self) -> str:
        changed = "; ".join(map(str, self.changed))
        return f"complete at step {self.state.step:,}, and would be trained further: {changed}"

    @property
    def undone_by(self) -> str:
        """Return the settings that keep the old values, each as KEY=VALUE."""
        return " ".join(f"{each.key}={as_yaml(each.old)}" for each in self.changed)


def load_newest_state(run: RunDirectory) -> State | None:
    """Return the state of a run's newest checkpoint; None: it has none, or that is damaged."""
    checkpoints = list_checkpoints(run.checkpoints)
    try:
        return Checkpoint.open(checkpoints[-1]).load_state() if checkpoints else None
    except CheckpointError:  # resuming the run reports this, and how to fix it
        return None


def find_extension(run: RunDirectory, config: Config) -> Extension | None:
    """Return how ``config`` would train a complete run further.

    None: the run is not complete, or it is complete by ``config`` as well.
    """
    state = load_newest_state(run)
    if state is None or not run.config.is_file():
        return None
    trained = run.load_config()
    if not state.is_final(trained.training) or state.is_final(config.training):
        return None
    changed = [each for each in differences(trained, config) if each.key in state.FINAL_BY]
    return Extension(state, trained, changed)


def is_data_outdated(run: RunDirectory, config: Config) -> bool:
    """Return whether tokenizers and encoded text are of other settings and must be made again.

    That is only possible before the first checkpoint.
    """
    if list_checkpoints(run.checkpoints):
        return False
    return any(diff.key.startswith(_SHAPES_DATA) for diff in _fixed_differences(run, config))


def _fixed_differences(run: RunDirectory, config: Config) -> list[Difference]:
    """Return the differences in settings that may not change on resuming."""
    differing = differences(run.load_config(), config)
    return [diff for diff in differing if not (diff.may_change or _adds_sums(diff))]


def _adds_sums(difference: Difference) -> bool:
    """Return whether all that is new are sums of files, which users add when they were told."""
    old, new = difference.old, difference.new
    if difference.key.endswith(".sha256"):
        return old is None
    if not (isinstance(old, list) and isinstance(new, list) and len(old) == len(new)):
        return False
    return all(map(_is_but_for_a_sum, old, new))


def _is_but_for_a_sum(old: object, new: object) -> bool:
    if isinstance(old, dict) and isinstance(new, dict) and "sha256" not in old:
        new = {key: new[key] for key in new if key != "sha256"}
    return old == new


def _has_moved(difference: Difference, paths: Collection[str]) -> bool:
    """Return whether two values differ only in ``paths``, of which none is left at its old place.

    Files may have moved, for instance with the whole checkout.
    """
    old, new = difference.old, difference.new
    if _mask(old, paths) != _mask(new, paths):
        return False
    pairs = zip(_list_texts(old), _list_texts(new), strict=True)
    return not any(was != now and _is_left(text_path(was)) for was, now in pairs)


def _mask(value: object, paths: Collection[str]) -> object:
    """Return a value of a setting, with one mark for all of ``paths``."""
    match value:
        case str():
            return ... if value in paths else value
        case [*items]:
            return [_mask(item, paths) for item in items]
        case dict():
            return {key: _mask(item, paths) for key, item in value.items()}
    return value


def _list_texts(value: object) -> list[str]:
    """Return the texts in a value of a setting, in order."""
    match value:
        case str():
            return [value]
        case dict():
            return _list_texts([*value.values()])
        case [*items]:
            return [text for item in items for text in _list_texts(item)]
    return []


def _list_paths(value: object) -> list[str]:
    """Return the paths in settings, as records have them."""
    match value:
        case Path():
            return [value.as_posix()]
        case dict():
            return _list_paths([*value.values()])
        case [*items]:
            return [path for item in items for path in _list_paths(item)]
    return []


def _is_left(path: Path) -> bool:
    with suppress(CorpusError):  # no file matches its wildcards
        return fetched_from(path) is not None or any(map(exists, find_files(path)))
    return False


def record_sources(run: RunDirectory, config: Config) -> None:
    """Record where the text of a run and its first weights come from.

    The core records where the text lies, if its kind of data looks for it there later; extensions
    provide, as ``provenance``, functions of the run's path and its settings.
    """
    known = corpus_directory(run)
    place = open_kind(config.data).find_place(known)
    if place is not None and place != known:
        write_text(run.path / CORPUS, json.dumps({config.data.kind: place.as_posix()}) + "\n")
    # With checkpoints, a run has the text that it began with, whatever can be found by now.
    if not list_checkpoints(run.checkpoints):
        for entry in registry.entries("provenance").values():
            entry.load()(run.path, config)


def corpus_directory(run: RunDirectory) -> Path | None:
    """Return where a run keeps text of its own, or the recorded directory, or None."""
    if run.corpus.is_dir():
        return run.corpus
    recorded = read_json(run.path / CORPUS)
    # The record is not trusted: files found there are verified.
    found = [*recorded.values()] if isinstance(recorded, dict) else []
    if len(found) == 1 and isinstance(found[0], str) and "\0" not in found[0]:
        return Path(found[0])
    return None
