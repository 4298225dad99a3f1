"""What this program writes into a run directory, by name; nothing else in it is deleted."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from transformer_cli.config.yaml import is_resolved
from transformer_cli.errors import ConfigError, RunError
from transformer_cli.files import TEMPORARY_MARK

CONFIG, MARK, LOCK = "config.yaml", "run.json", ".lock"
CORPUS = "corpus.json"
FILES = (CONFIG, CORPUS, "origins.json", "metrics.jsonl", "curves.png", "report.html")
CHECKPOINT_FILES = ("model.safetensors", "optimizer.safetensors", "state.json", "manifest.json")
CHECKPOINT_NAME = re.compile(r"step-(\d{8,})")
EVENT_FILE_NAME = re.compile(r"events\.out\.tfevents\.\d{10,}")

_CHECKPOINTS = rf"((damaged-)?{CHECKPOINT_NAME.pattern}|average)(-new)?|trial"
_TOKENIZER = r"tokenizer\.json|(src|tgt)\.vocab\.txt|(src|tgt|joint)\.(model|tokenizer\.json)"
_NAMES = {
    "tokenizer": _TOKENIZER,
    # Versions before 0.1.0 had ids and offsets of each side.
    "encoded": r"pages|index|store\.json|batches\.json|(src|tgt)\.(ids|offsets)",
    "checkpoints": _CHECKPOINTS,
    "tensorboard": EVENT_FILE_NAME.pattern,
}
DIRECTORIES = tuple(_NAMES)
OWN = (*FILES, *DIRECTORIES)
"""All that a run consists of."""
PREVIOUS, MOVING = "previous", "previous-moving"
"""Where a run is set aside; see replacing.py."""
ALL = (MARK, LOCK, *OWN, PREVIOUS, MOVING)
"""All that is written to."""
WRITTEN_WHOLE = {
    "checkpoints": ("step-*", "average", "average-new", "trial"),
    "encoded": ("store.json", "batches.json"),
}
"""Patterns of what appears whole in a directory of the run, from under a temporary name."""
# What a process leaves that dies before the mark is there, or before config.yaml in older versions.
_BEGINNING = re.compile(
    rf"{re.escape(LOCK)}|({re.escape(MARK)}|{re.escape(CONFIG)}){re.escape(TEMPORARY_MARK)}\d+"
)


def is_of_a_beginning(path: Path) -> bool:
    """Whether a file is what a run has in its directory before it is known as one."""
    return _BEGINNING.fullmatch(path.name) is not None


def check_config_files(run: Path, files: Sequence[Path]) -> None:
    """Make sure that none of the files that settings were read from is written over.

    Only the run's own config.yaml may be, as this program has written it.

    Args:
        run: a run directory, to be written to.
        files: the configuration, and those it builds on.

    Raises:
        ConfigError: one of them lies where the run is written.
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
    """Whether there is a checkpoint, which appears whole, of any step."""
    directory = run / "checkpoints"
    return directory.is_dir() and any(
        CHECKPOINT_NAME.fullmatch(path.name) for path in directory.iterdir()
    )


def check_no_foreign_files(run: Path, names: tuple[str, ...] = OWN) -> None:
    """Make sure that what is to be deleted has nothing in it that this program does not write.

    Args:
        run: a run directory.
        names: which parts of the run are to be deleted.

    Raises:
        RunError: there is something else; the message names it.
    """
    for path in foreign(run, names):
        raise RunError(
            f"{path}: was not written by transformer-cli, and would be deleted; move it elsewhere"
        )


def foreign(run: Path, names: tuple[str, ...] = OWN) -> Iterator[Path]:
    """What is in the places of these parts of a run and is not the run's."""
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
