"""A run directory: its paths, all file names, its lock, and run.json, which marks it as a run."""

import errno
import json
import os
import re
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Protocol

from filelock import lock_descriptor

from transformer_cli.base import registry
from transformer_cli.base.errors import ConfigError, MissingRunError, RunError, UsageError
from transformer_cli.base.files import check_no_links, is_at, is_stream, read_json
from transformer_cli.base.locations import open_regular
from transformer_cli.base.packages import __version__
from transformer_cli.base.text_files import write_text
from transformer_cli.base.writing import TEMPORARY_END, name_path_in_error, remove_directory
from transformer_cli.config.schema import Config
from transformer_cli.config.sections import find_owners
from transformer_cli.config.yaml import load_config
from transformer_cli.runs.checkpoint import Checkpoint, list_checkpoints

CONFIG, MARK, LOCK, CHECKPOINTS = "config.yaml", "run.json", ".lock", "checkpoints"

# Files that extensions write, keyed by name. Their facts may be "configuration" (training only
# reads the file), "unlocked", "inherited" and "stays" (grown runs have no copy of it).
_ADDED = {name: entry.facts for name, entry in registry.entries("run file").items()}
# Data that can be made again: directories, and patterns of file names. Nothing else is deleted.
_DATA = {
    "tokenizer": r"tokenizer\.json|(src|tgt|joint)\.(vocab\.txt|model|tokenizer\.json)",
    "encoded": r"ids|pages|store\.json",
    "corpus": r"[A-Za-z0-9_-]{1,64}\.(src|tgt)|[a-z]+\.json",  # for any kind of data
}
LOCKED = (
    *(MARK, LOCK, CONFIG, "metrics.jsonl", CHECKPOINTS, *_DATA),
    *(name for name, facts in _ADDED.items() if "unlocked" not in facts),
)
"""The names of all files and directories that only a process with the run's lock writes."""
UNLOCKED = tuple(name for name, facts in _ADDED.items() if "unlocked" in facts)
"""The names of the files that processes write, or replace, without the run's lock."""
INHERITED = tuple(name for name, facts in _ADDED.items() if "inherited" in facts)
"""The names of the JSON files that a run copies from the run that its setting ``init`` names."""
# The files of a process that died before it wrote run.json.
_BEGINNING = re.compile(rf"{re.escape(LOCK)}|{re.escape(MARK)}{TEMPORARY_END}")

_FORMAT = 1
_MOST_NAMED = 10


@dataclass(unsafe_hash=True)
class RunDirectory:
    """The paths of one run; creating this object reads and writes no files."""

    path: Path

    def __post_init__(self) -> None:
        if re.fullmatch("[a-z][a-z0-9+]+:", self.path.parts[0] if self.path.parts else ""):
            raise UsageError(f"{self.path}: not a directory; a run cannot be in a store")
        self.config = self.path / CONFIG  # all settings, as YAML
        self.tokenizer = self.path / "tokenizer"
        self.encoded = self.path / "encoded"  # the training text as token ids; see data/store.py
        self.corpus = self.path / "corpus"  # text that code for ``data.kind`` has prepared
        self.checkpoints = self.path / CHECKPOINTS
        self.lock = self.path / LOCK
        self.metrics = self.path / "metrics.jsonl"

    @property
    def has_checkpoints(self) -> bool:
        """Whether there is a checkpoint to resume from."""
        return bool(list_checkpoints(self.checkpoints))

    @property
    def text_place(self) -> Path | None:
        """The directory with the text that the run itself stores, or None if it stores none."""
        return self.corpus if self.corpus.is_dir() else None

    @property
    def exported(self) -> "ExportedModel | None":
        """The exported model in this directory, or None if this is a run or something else."""
        if self.config.is_file():
            return None
        for entry in registry.entries("exported model").values():
            if (self.path / entry.facts["mark"]).is_file():
                return entry.load()(self.path)  # type: ignore[no-any-return]
        return None

    @property
    def only_engine(self) -> registry.Entry | None:
        """The search engine that the model here was exported for, or None for other directories."""
        engines = registry.entries("engine").values()
        return next((each for each in engines if (self.path / each.facts["mark"]).is_file()), None)

    def check_not_exported(self) -> None:
        """Raise a ``RunError`` if this is an exported model, which has no checkpoints."""
        if self.exported:
            raise RunError(
                f"{self.path}: is an exported model, which has no checkpoints and cannot be "
                "trained further; give a run, or start one from this model with init"
            )

    def load_config(self) -> Config:
        """Return the settings of this run or exported model; raise ``RunError`` if neither."""
        if (engine := self.only_engine) is not None:
            raise RunError(
                f"{self.path}: is exported for {engine.facts['reader']}, so only translate can use "
                f"it, with `engine` {engine.name}; give the run that it was exported from"
            )
        if exported := self.exported:
            return exported.load_config()
        if not self.config.is_file():
            raise MissingRunError(f"{self.path}: not a run directory: {self._why_no_run()}")
        for name in _read_needed(self.path):
            if not registry.is_installed(name):
                problem = registry.describe_missing("extension", name)
                raise RunError(f"{self.path}: was made with an extension; {problem}")
        return load_config(self.config)

    def _why_no_run(self) -> str:
        """Return why this is not a run, and what to do."""
        near = self.path if self.path.is_dir() else self.path.parent
        found = (each.parent for each in near.glob(f"*/{CONFIG}"))
        trained = (str(each) for each in found if RunDirectory(each).has_checkpoints)
        runs = sorted(islice(trained, _MOST_NAMED))
        what = f"it has no {CONFIG}" if self.path.exists() else "it does not exist"
        if runs:
            return f"{what}; runs here: {', '.join(runs)}"
        return f"{what}; make one with: transformer-cli train CONFIG"

    def check_is_run_or_empty(self) -> None:
        """Raise an error unless the directory holds a run, is empty, or does not exist yet."""
        self.check_not_exported()
        # Links in an untrusted directory could make us change any file.
        check_no_links(self.path, LOCKED)
        if self.path.is_file():
            raise UsageError(f"{self.path}: is a file; choose another `run_dir`")
        if not self.path.is_dir() or is_run(self.path):
            return
        for path in sorted(self.path.iterdir()):
            if not _BEGINNING.fullmatch(path.name):
                raise RunError(
                    f"{self.path}: holds files but no run (it has {path.name}, but no {MARK} from "
                    "transformer-cli); choose another `run_dir`"
                )

    def remove_data(self, *directories: Path) -> None:
        """Remove data that can be made again, such as encoded text; by default, all of it."""
        directories = directories or tuple(self.path / name for name in _DATA)
        present = [directory for directory in directories if directory.is_dir()]
        for directory in present:
            ours = re.compile(rf"({_DATA[directory.name]})({TEMPORARY_END})?")
            for path in sorted(directory.iterdir()):
                if not ours.fullmatch(path.name):
                    raise RunError(
                        f"{path}: was not written by transformer-cli, but would be deleted; move "
                        "it elsewhere"
                    )
        for directory in present:
            remove_directory(directory)


class ExportedModel(Protocol):
    """A directory that is not a run, but has the weights and settings of a run."""

    record: Path
    """The file that records the SHA-256 of the weights."""

    def load_config(self) -> Config:
        """Return the settings of the run that was exported."""

    def open_weights(self) -> Checkpoint:
        """Return the weights as a checkpoint; check that they belong to the model's tokenizer."""


def write_mark(run: Path, config: Config | None = None) -> None:
    """Write run.json, which marks a directory as a run and lists the extensions it needs."""
    needed = [] if config is None else sorted(find_owners(config))
    if not is_run(run) or _read_needed(run) != needed:
        mark = {"format": _FORMAT, "program": "transformer-cli", "version": __version__}
        write_text(run / MARK, json.dumps(mark | ({"extensions": needed} if needed else {})) + "\n")


def _read_needed(run: Path) -> list[str]:
    """Return the names of the extensions that a run needs, as listed in its run.json."""
    match read_json(run / MARK):
        case {"extensions": [*names]}:
            return [str(name) for name in names]
    return []


def is_run(run: Path) -> bool:
    """Return whether a directory has a run.json; raise RunError if it is damaged or too new."""
    path = run / MARK
    if not path.exists():
        return False
    match mark := read_json(path):
        case {"program": "transformer-cli", "format": int() as number} if number <= _FORMAT:
            return True
        case {"program": "transformer-cli", "format": int() as number}:
            raise RunError(
                f"{path}: has format {number}, by transformer-cli {mark.get('version')}, but this "
                f"version reads formats up to {_FORMAT}; use a newer version, or choose another "
                "`run_dir`"
            )
    raise RunError(
        f"{path}: was not written by transformer-cli, or is damaged; choose another "
        "`run_dir`, or delete the file if this is a run"
    )


def check_config_files(run: Path, files: Sequence[Path]) -> None:
    """Raise ConfigError if the run would overwrite any of ``files`` but its own config.yaml."""
    directory = run.resolve()
    read = {name for name, facts in _ADDED.items() if "configuration" in facts}
    written = [directory / name for name in (*LOCKED, *UNLOCKED) if name not in read]
    for file in files:
        path = file.resolve()
        is_own = file == files[0] and path == directory / CONFIG
        if not is_own and any(path.is_relative_to(each) for each in written):
            raise ConfigError(
                f"{file}: the settings are read from this file, but the run would overwrite it; "
                "choose another `run_dir`"
            )


def check_outside_runs(path: Path, option: str, read: Iterable[Path] = ()) -> None:
    """Raise UsageError if ``path``, the value of ``option``, is in any run or a model in ``read``.

    Output there could overwrite a file, or later be mistaken for a file of the run or model.
    """
    runs = map(RunDirectory, read)  # if one is not a run, that is an error later
    models = {
        run.path.resolve()
        for run in runs
        if run.config.is_file() or run.only_engine or run.exported
    }
    if is_stream(path) and not path.is_dir():
        return
    # A link inside a run counts, wherever it leads.
    named = Path(os.path.normpath(path.absolute()))
    places = (path.resolve().parent, *(each.resolve() for each in named.parents))
    for parent in dict.fromkeys(each for place in places for each in (place, *place.parents)):
        mark = read_json(parent / MARK)
        is_marked = isinstance(mark, dict) and mark.get("program") == "transformer-cli"
        if is_marked or parent in models:
            raise UsageError(f"{option} {path}: is in the run or model {parent}; write elsewhere")


# Longer than a check holds the lock, but shorter than any training.
_RETRY_SECONDS = 0.2


def check_unlocked(run: RunDirectory) -> None:
    """Check, before long work and without writing, that no other process has locked ``run``.

    If there are several ranks, only the main process may call this, because it takes the lock.
    """
    run.check_is_run_or_empty()
    try:
        file = open_regular(run.path / LOCK, "r+b")
    except OSError:
        return  # there is no lock yet; ``lock_run`` reports it if there cannot be one
    with file:
        _lock(run.path, file, _RETRY_SECONDS)


@contextmanager
def lock_run(run: RunDirectory) -> Iterator[None]:
    """Lock ``run`` while the block runs; see ``lock_directory``."""
    run.check_is_run_or_empty()
    with lock_directory(run.path):
        yield


@contextmanager
def lock_directory(path: Path, patience: float = _RETRY_SECONDS) -> Iterator[int]:
    """Create a directory if needed, and lock it for the block; wait up to ``patience`` seconds.

    Yield the lock's file descriptor; a process that inherits it also holds the lock. The system
    releases the lock however the process ends. The lock file stays, and names its last owner.
    """
    lock = path / LOCK
    while True:
        try:
            path.mkdir(parents=True, exist_ok=True)
            file = open_regular(lock, "a+b")
        except OSError as error:
            where = lock if error.errno == errno.EMLINK else path
            raise RunError(f"{where}: cannot be written: {error.strerror}") from error
        with file:
            _lock(path, file, patience)
            if not is_at(file, lock):
                continue  # its holder has renamed the directory meanwhile
            with name_path_in_error(lock):
                # Unbuffered: a failed write to a full disk is not repeated when the file is closed.
                os.ftruncate(file.fileno(), 0)
                holder = f"\nprocess {os.getpid()} on {socket.gethostname()}\n"
                os.write(file.fileno(), holder.encode())
            yield file.fileno()
            return


def _lock(path: Path, file: BinaryIO, patience: float) -> None:
    # Another check, or a child of a killed process, may hold the lock for a moment.
    deadline = time.monotonic() + patience
    try:
        while not lock_descriptor(file.fileno(), blocking=False):
            if time.monotonic() >= deadline:
                break
            time.sleep(_RETRY_SECONDS)
        else:
            return
    except OSError as error:
        raise RunError(
            f"{path}: cannot be locked: {error.strerror}; choose a directory on a local disk"
        ) from error
    # On Windows, nobody else can read the first byte, which is locked.
    file.seek(1 if sys.platform == "win32" else 0)
    holder = file.read(10_000).decode(errors="replace").strip() or "another process"
    raise RunError(f"{path}: in use by {holder}; wait for it, or use another directory")
