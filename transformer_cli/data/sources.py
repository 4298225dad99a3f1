"""The parallel text that a configuration names, whatever its kind."""

from pathlib import Path
from typing import Any

from transformer_cli.base import registry
from transformer_cli.base.errors import ConfigError, CorpusError, MissingTextError, did_you_mean
from transformer_cli.config.data_schema import DataSection
from transformer_cli.data.corpus import PairSource, ParallelFiles, ParallelText, concatenate
from transformer_cli.data.kinds import CopyKind, CorpusKind, FilesKind, ToyKind
from transformer_cli.data.multi30k import Multi30kKind

_KINDS: dict[str, type[CorpusKind[Any]]] = {
    "files": FilesKind,
    "multi30k": Multi30kKind,
    "toy": ToyKind,
    "copy": CopyKind,
}


def open_kind(data: DataSection) -> CorpusKind[Any]:
    """Return what finds the text of these settings; ConfigError: its kind is not installed."""
    if data.kind in _KINDS:
        return _KINDS[data.kind](data)
    if (entry := registry.find("corpus", data.kind)) is None:
        raise ConfigError(registry.describe_missing("data.kind", data.kind))
    kind: CorpusKind[Any] = entry.load()(data)
    return kind


def split_names(data: DataSection) -> list[str]:
    """Return the splits that can be loaded: ``train``, ``val``, then the test splits."""
    return open_kind(data).split_names()


def default_split(data: DataSection) -> str:
    """Return the split to evaluate on by default: the first test split."""
    # Where there is none, the text that was validated on has to do.
    names = split_names(data)
    return names[2] if len(names) > 2 else "val"


def load_split(data: DataSection, split: str, place: Path | None = None) -> ParallelText:
    """Read, fetch or make the text of a split, blank lines included.

    ``place`` is where a run keeps its text; see ``CorpusKind``.

    Raises:
        CorpusError: there is no such split, or its text is missing, misaligned or damaged.
    """
    check_split(data, split)
    return open_kind(data).read_split(split, place)


def open_split(
    data: DataSection, split: str, place: Path | None = None
) -> ParallelFiles | ParallelText:
    """Find, fetch or make the text of a split, to be read as a stream; see ``load_split``."""
    check_split(data, split)
    return open_kind(data).open_split(split, place)


def open_training_text(data: DataSection, place: Path | None = None) -> PairSource:
    """Return the split ``train`` and all that is added to it; raise what ``open_split`` does."""
    return concatenate(*open_training_parts(data, place).values())


def open_training_parts(data: DataSection, place: Path | None = None) -> dict[str, PairSource]:
    """Return the split ``train`` and each source that is added to it, by name."""
    return {"train": open_split(data, "train", place), **open_added(data)}


def open_added(data: DataSection) -> dict[str, PairSource]:
    """Return the sources that extensions add to the split ``train``, by name."""
    found: dict[str, PairSource] = {}
    for entry in find_mixing(data):
        found |= entry.load("open")(data)
    return found


def find_mixing(data: DataSection) -> list[registry.Entry]:
    """Return the entries of the interface ``mixing`` that have a setting here.

    Such an extension adds text to the split ``train``, or weighs its parts. ``keys`` are its
    settings, ``open`` is a function of ``data`` that returns sources by name, and ``load`` one that
    returns a ``Mix``; see training/preparation.py.
    """
    entries = registry.entries("mixing").values()
    return [each for each in entries if any(getattr(data, key, None) for key in each.facts["keys"])]


def is_on_disk(data: DataSection, split: str, place: Path | None = None) -> bool:
    """Return whether ``open_split`` would download nothing; CorpusError: a file is damaged."""
    return open_kind(data).is_here(split, place)


def check_has_text(data: DataSection, config: Path) -> None:
    """Raise ConfigError if the settings in the file ``config`` name no text."""
    if not split_names(data):
        run = config.parent.as_posix() if config.name == "config.yaml" else "RUN"
        raise ConfigError(
            f"{config}: data.kind {data.kind} has no text to train on; write a file with base: "
            f"{run}/config.yaml, init: {run} and data of another kind"
        )


def check_has_splits(data: DataSection, run: Path, advice: str) -> None:
    """Raise CorpusError, which ends with ``advice``, if a run has no text of its own."""
    if not split_names(data):
        raise CorpusError(f"{run}: an {data.kind} model has no text of its own; {advice}")


def check_split(data: DataSection, split: str) -> None:
    """Raise MissingTextError unless a corpus has a split of this name."""
    names = split_names(data)
    if not names:
        raise MissingTextError(
            f"data.kind {data.kind} has no split '{split}', as the model came without text"
        )
    if split not in names:
        hint = did_you_mean(split, names) or f"choose from {', '.join(names)}"
        raise MissingTextError(f"data.kind {data.kind} has no split '{split}'; {hint}")
