"""The names of all files that transformer-cli writes into a run directory; it deletes no other."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from transformer_cli.config.data_schema import SPLIT_NAME
from transformer_cli.config.yaml import is_resolved
from transformer_cli.errors import ConfigError, RunError
from transformer_cli.files import TEMPORARY_MARK

CONFIG, MARK, LOCK = "config.yaml", "run.json", ".lock"
CORPUS, IMPORT = "corpus.json", "import.json"
SWEEP_MARK, SWEEP_PLAN, SWEEP_RUNS = "sweep.json", "plan.json", "runs"
"""In the directory of a sweep."""
FILES = (CONFIG, CORPUS, "origins.json", IMPORT, "metrics.jsonl", "curves.png", "report.html")
CHECKPOINT_FILES = ("model.safetensors", "optimizer.safetensors", "state.json", "manifest.json")
CHECKPOINT_NAME = re.compile(r"step-(\d{8,})")
REPLACEMENT_NAME = re.compile(rf"({CHECKPOINT_NAME.pattern}|average)-new")
EVENT_FILE_NAME = re.compile(r"events\.out\.tfevents\.\d{10,}")

_CHECKPOINTS = rf"((damaged-)?{CHECKPOINT_NAME.pattern}|average)(-new)?|trial"
_TOKENIZER = r"tokenizer\.json|(src|tgt|joint)\.(vocab\.txt|model|tokenizer\.json)"
_NAMES = {
    "tokenizer": _TOKENIZER,
    "encoded": r"ids|lengths|pages|lines|store\.json|batches\.json",
    "checkpoints": _CHECKPOINTS,
    "tensorboard": EVENT_FILE_NAME.pattern,
    "corpus": rf"{SPLIT_NAME}\.(src|tgt)|sources\.json",
}
DIRECTORIES = tuple(_NAMES)
OWN = (*FILES, *DIRECTORIES)
"""Everything that a run consists of."""
PREVIOUS, MOVING, ASIDE_MARK = "previous", "previous-moving", ".set-aside"
"""Where a run is set aside, and the file that marks it as such; see overwrite.py."""
ALL = (MARK, LOCK, *OWN, PREVIOUS, MOVING)
"""Everything that is written."""
WRITTEN_WHOLE = {
    "checkpoints": ("step-*", "average", "average-new", "trial"),
    "encoded": ("store.json", "batches.json"),
    "corpus": ("sources.json", "*.src", "*.tgt"),
}
"""Patterns of what is written under a temporary name first, by directory."""
# Left by a process that died before the mark was written, or config.yaml in older versions.
_BEGINNING = re.compile(
    rf"{re.escape(LOCK)}|({re.escape(MARK)}|{re.escape(CONFIG)}){re.escape(TEMPORARY_MARK)}\d+"
)


def is_leftover_of_start(path: Path) -> bool:
    """Return whether a process that died before marking the run may have left this file."""
    return _BEGINNING.fullmatch(path.name) is not None


def check_config_files(run: Path, files: Sequence[Path]) -> None:
    """Check that no configuration file would be overwritten but the run's own, unedited one.

    Raises:
        ConfigError: one would be overwritten.
    """
    for file in files:
        path, directory = file.resolve(), run.resolve()
        if not any(path.is_relative_to(directory / name) for name in ALL):
            continue
        if path != directory / CONFIG or file != files[0]:
            raise ConfigError(
                f"{file}: settings are read from it, and it lies where this run is written; "
                "choose another directory with --run-dir"
            )
        if not is_resolved(file):
            raise ConfigError(
                f"{file}: has been edited since transformer-cli wrote it, and would be written "
                "over; copy it elsewhere, and name the copy"
            )


def has_checkpoint(run: Path) -> bool:
    """Return whether there is a checkpoint of any step, perhaps one that replaces an older one."""
    directory = run / "checkpoints"
    return directory.is_dir() and any(
        CHECKPOINT_NAME.fullmatch(path.name.removesuffix("-new")) for path in directory.iterdir()
    )


def check_no_foreign_files(run: Path, names: tuple[str, ...] = OWN) -> None:
    """Check that parts of a run hold only files that transformer-cli has written.

    Raises:
        RunError: there is another file.
    """
    for path in find_foreign_files(run, names):
        raise RunError(
            f"{path}: was not written by transformer-cli, and would be deleted; move it elsewhere"
        )


def find_foreign_files(run: Path, names: tuple[str, ...] = OWN) -> Iterator[Path]:
    """Yield the files in these parts of a run that transformer-cli has not written."""
    for name in names:
        path = run / name
        if name in FILES:
            if path.is_dir():
                yield path
        elif path.is_dir():
            yield from _others(path, _NAMES[name])
        elif path.exists():
            yield path


def _others(directory: Path, names: str) -> Iterator[Path]:
    ours = re.compile(rf"({names})({re.escape(TEMPORARY_MARK)}\d+)?")
    for path in sorted(directory.iterdir()):
        if not ours.fullmatch(path.name):
            yield path
        elif path.is_dir() and not path.is_symlink():
            yield from _others(path, "|".join(map(re.escape, CHECKPOINT_FILES)))
