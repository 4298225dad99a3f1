"""Kinds of data: how the text of each ``data.kind`` is found, and the kinds of the core.

An extension adds a kind by a manifest entry of the interface ``corpus``, whose ``load`` is a
subclass of ``CorpusKind``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from transformer_cli.base import registry
from transformer_cli.base.errors import ConfigError, CorpusError, MissingTextError, did_you_mean
from transformer_cli.base.locations import find_files, is_here
from transformer_cli.base.packages import TOY, shipped_directory
from transformer_cli.config.data_schema import DataSection, FilePair, FilesData, ToyData
from transformer_cli.data.corpus import PairSource, ParallelFiles, ParallelText

D = TypeVar("D", bound=DataSection)


class Preparation(NamedTuple):
    """Where a run keeps text of its own, and what making it may use."""

    directory: Path
    """Of the text; it may not exist yet."""
    is_begun: bool
    """Whether the run has checkpoints, which were trained on the text that it has."""
    clear: Callable[[], object]
    """Removes the directory."""
    log: Callable[[str], object]
    executor: Executor | None = None


class CorpusKind(ABC, Generic[D]):
    """The text that the settings of one kind name.

    ``place`` is the directory where a run keeps text of its own; None: there is none.
    """

    keeps_text = False
    """Whether a run has to ``prepare`` its text before a split can be opened."""

    def __init__(self, data: D) -> None:
        self.data = data

    @abstractmethod
    def split_names(self) -> list[str]:
        """Return ``train``, ``val``, then the test splits; nothing if there is no text."""

    @abstractmethod
    def open_split(self, split: str, place: Path | None) -> ParallelFiles | ParallelText:
        """Return the text of one of the splits, which is not read yet.

        Raises:
            CorpusError: it is not there.
        """

    def read_split(self, split: str, place: Path | None) -> ParallelText:
        """Read a split into memory, with what is to be put before each source."""
        text = self.open_split(split, place)
        return text if isinstance(text, ParallelText) else text.read()

    def is_here(self, split: str, place: Path | None) -> bool:
        """Return whether ``open_split`` would download nothing."""
        return True

    def prepare(self, preparation: Preparation) -> None:
        """Write the text into a run's directory, or bring what is there up to date.

        Raises:
            CorpusError: a source cannot be read, or nothing is left of the text.
            OSError: the text cannot be written.
        """


class FilesKind(CorpusKind[FilesData]):
    """Pairs of text files."""

    def split_names(self) -> list[str]:
        """Return the names of the configured pairs."""
        return list(self._pairs)

    def open_split(self, split: str, place: Path | None) -> ParallelFiles:
        """Return a pair of files, which are not looked at before they are read."""
        pair = self._pairs[split]
        src, tgt = map(_find_file, (pair.src, pair.tgt), pair.sums)
        return ParallelFiles(src, tgt)

    def is_here(self, split: str, place: Path | None) -> bool:
        """Return whether neither side has to be fetched."""
        pair = self._pairs[split]
        return all(map(is_here, (pair.src, pair.tgt), pair.sums))

    @property
    def _pairs(self) -> dict[str, FilePair]:
        return {"train": self.data.train, "val": self.data.val, **self.data.test}


def _find_file(path: Path, sha256: str | None) -> Path:
    """Return the one file that a path means; CorpusError: none matches it, or several."""
    file, *others = find_files(path, sha256)
    if others:
        problem = f"matches {1 + len(others)} files, where one is meant"
        raise CorpusError(f"{path}: {problem}; name it, or take data.kind corpus")
    return file


class ToyKind(CorpusKind[ToyData]):
    """The toy captions."""

    def split_names(self) -> list[str]:
        """Return the names of the three splits."""
        return ["train", "val", "test"]

    def open_split(self, split: str, place: Path | None) -> ParallelFiles:
        """Return the current directory's copy, which ``init`` writes, or the program's own."""
        src, tgt = f"{split}.{self.data.src_lang}", f"{split}.{self.data.tgt_lang}"
        for directory in (TOY, shipped_directory() / TOY):
            if (directory / src).is_file() and (directory / tgt).is_file():
                return ParallelFiles(directory / src, directory / tgt)
        raise CorpusError(
            f"{TOY}: {src} and {tgt} are not there; transformer-cli init --from toy writes them"
        )


# --- the text of a configuration ------------------------------------------------------------------

_KINDS: dict[str, type[CorpusKind[Any]]] = {
    "files": FilesKind,
    "toy": ToyKind,
}


def open_kind(data: DataSection) -> CorpusKind[Any]:
    """Return what finds the text of these settings; ConfigError: its kind is not installed."""
    if data.kind in _KINDS:
        return _KINDS[data.kind](data)
    if (entry := registry.find("corpus", data.kind)) is None:
        raise ConfigError(registry.describe_missing("data.kind", data.kind))
    kind: CorpusKind[Any] = entry.load()(data)
    return kind


def default_split(data: DataSection) -> str:
    """Return the split to evaluate on by default: the first test split."""
    # Where there is none, the text that was validated on has to do.
    names = open_kind(data).split_names()
    return names[2] if len(names) > 2 else "val"


def load_split(data: DataSection, split: str, place: Path | None = None) -> ParallelText:
    """Read, fetch or make the text of a split, blank lines included.

    ``place`` is where a run keeps or found its text; see ``CorpusKind``.

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
    text: PairSource = open_split(data, "train", place)
    for entry in find_mixing(data):
        text = entry.load("open")(data, text)
    return text


def find_mixing(data: DataSection) -> list[registry.Entry]:
    """Return the entries of the interface ``mixing`` that have a setting here.

    Such an extension adds text to the split ``train``, or weighs its parts. ``keys`` are its
    settings, ``open`` is a function of ``data`` and the text so far that returns all of it, and
    ``load`` one that returns a ``ShardedStore``, or None; see training/preparation.py.
    """
    entries = registry.entries("mixing").values()
    return [each for each in entries if any(getattr(data, key, None) for key in each.facts["keys"])]


def check_has_text(data: DataSection, config: Path) -> None:
    """Raise ConfigError if the settings in the file ``config`` name no text."""
    if not open_kind(data).split_names():
        run = config.parent.as_posix() if config.name == "config.yaml" else "RUN"
        raise ConfigError(
            f"{config}: data.kind {data.kind} has no text to train on; write a file with base: "
            f"{run}/config.yaml, init: {run} and data of another kind"
        )


def check_has_splits(data: DataSection, run: Path, advice: str) -> None:
    """Raise CorpusError, which ends with ``advice``, if a run has no text of its own."""
    if not open_kind(data).split_names():
        raise CorpusError(f"{run}: an {data.kind} model has no text of its own; {advice}")


def check_split(data: DataSection, split: str) -> None:
    """Raise MissingTextError unless a corpus has a split of this name."""
    names = open_kind(data).split_names()
    if not names:
        raise MissingTextError(
            f"data.kind {data.kind} has no split '{split}', as the model came without text"
        )
    if split not in names:
        hint = did_you_mean(split, names) or f"choose from {', '.join(names)}"
        raise MissingTextError(f"data.kind {data.kind} has no split '{split}'; {hint}")
