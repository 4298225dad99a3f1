"""Kinds of data: how to find the text of each ``data.kind``, and the kinds that are built in.

An extension adds a kind with a manifest entry for the interface ``corpus``. The entry's ``load``
names a subclass of ``CorpusKind``.
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
    """Where a run keeps its own copy of the text, and what is needed to write it."""

    directory: Path
    """The directory for the text; it may not exist yet."""
    is_begun: bool
    """Whether the run has checkpoints, which were trained on the existing text."""
    clear: Callable[[], object]
    """A function that removes the directory."""
    log: Callable[[str], object]
    executor: Executor | None = None


class CorpusKind(ABC, Generic[D]):
    """The text that the settings of one ``data.kind`` describe.

    ``place`` is the directory where a run keeps its own copy of the text, or None if it has none.
    """

    keeps_text = False
    """Whether a run must ``prepare`` its text before a split can be opened."""

    def __init__(self, data: D) -> None:
        self.data = data

    @abstractmethod
    def split_names(self) -> list[str]:
        """Return ``train``, ``val``, then the test splits; an empty list if there is no text."""

    @abstractmethod
    def open_split(self, split: str, place: Path | None) -> ParallelFiles | ParallelText:
        """Return the text of a split, without reading it.

        Raises:
            CorpusError: the text is missing.
        """

    def read_split(self, split: str, place: Path | None) -> ParallelText:
        """Read a split into memory, including any tags that belong before source lines."""
        text = self.open_split(split, place)
        return text if isinstance(text, ParallelText) else text.read()

    def is_here(self, split: str, place: Path | None) -> bool:
        """Return whether ``open_split`` works without a download."""
        return True

    def prepare(self, preparation: Preparation) -> None:
        """Write the text into a run's directory, or update it there.

        Raises:
            CorpusError: a source cannot be read, or no text is left.
            OSError: the text cannot be written.
        """


class FilesKind(CorpusKind[FilesData]):
    """Text in pairs of files, one pair for each split."""

    def split_names(self) -> list[str]:
        """Return the names of the configured splits."""
        return list(self._pairs)

    def open_split(self, split: str, place: Path | None) -> ParallelFiles:
        """Return a split's pair of files, without opening them."""
        pair = self._pairs[split]
        src, tgt = map(_find_file, (pair.src, pair.tgt), pair.sums)
        return ParallelFiles(src, tgt)

    def is_here(self, split: str, place: Path | None) -> bool:
        """Return whether neither side needs a download."""
        pair = self._pairs[split]
        return all(map(is_here, (pair.src, pair.tgt), pair.sums))

    @property
    def _pairs(self) -> dict[str, FilePair]:
        return {"train": self.data.train, "val": self.data.val, **self.data.test}


def _find_file(path: Path, sha256: str | None) -> Path:
    """Return the one file that ``path`` matches; raise CorpusError if none or several match."""
    file, *others = find_files(path, sha256)
    if others:
        problem = f"matches {1 + len(others)} files, but only one is allowed"
        raise CorpusError(f"{path}: {problem}; give its full name, or use data.kind corpus")
    return file


class ToyKind(CorpusKind[ToyData]):
    """The toy corpus of image captions."""

    def split_names(self) -> list[str]:
        """Return the names of the three splits."""
        return ["train", "val", "test"]

    def open_split(self, split: str, place: Path | None) -> ParallelFiles:
        """Return the copy that ``init`` wrote to the current directory, or else the shipped one."""
        src, tgt = f"{split}.{self.data.src_lang}", f"{split}.{self.data.tgt_lang}"
        for directory in (TOY, shipped_directory() / TOY):
            if (directory / src).is_file() and (directory / tgt).is_file():
                return ParallelFiles(directory / src, directory / tgt)
        raise CorpusError(
            f"{TOY}: {src} and {tgt} are missing; transformer-cli init --from toy writes them"
        )


# --- the text of a config -------------------------------------------------------------------------

_KINDS: dict[str, type[CorpusKind[Any]]] = {
    "files": FilesKind,
    "toy": ToyKind,
}


def open_kind(data: DataSection) -> CorpusKind[Any]:
    """Return an object that finds the text of ``data``; raise ConfigError for an unknown kind."""
    if data.kind in _KINDS:
        return _KINDS[data.kind](data)
    if (entry := registry.find("corpus", data.kind)) is None:
        raise ConfigError(registry.describe_missing("data.kind", data.kind))
    kind: CorpusKind[Any] = entry.load()(data)
    return kind


def default_split(data: DataSection) -> str:
    """Return the split to evaluate on by default: the first test split, or val if there is none."""
    names = open_kind(data).split_names()
    return names[2] if len(names) > 2 else "val"


def load_split(data: DataSection, split: str, place: Path | None = None) -> ParallelText:
    """Return the text of a split, blank lines included; download or create it if necessary.

    ``place`` is the directory of the run's own copy of the text, if any; see ``CorpusKind``.

    Raises:
        CorpusError: the split does not exist, or its text is missing, misaligned or damaged.
    """
    check_split(data, split)
    return open_kind(data).read_split(split, place)


def open_split(
    data: DataSection, split: str, place: Path | None = None
) -> ParallelFiles | ParallelText:
    """Return the text of a split in a form that can be read as a stream; see ``load_split``."""
    check_split(data, split)
    return open_kind(data).open_split(split, place)


def open_training_text(data: DataSection, place: Path | None = None) -> PairSource:
    """Return the split ``train`` with any text added to it; for errors, see ``load_split``."""
    text: PairSource = open_split(data, "train", place)
    for entry in find_mixing(data):
        text = entry.load("open")(data, text)
    return text


def find_mixing(data: DataSection) -> list[registry.Entry]:
    """Return the entries of the interface ``mixing`` that have a setting in ``data``.

    Their extensions add text to the split ``train``, or weight its parts. ``keys`` lists their
    settings. ``open`` names a function (``data``, text so far) -> all text. ``load`` names a
    function that returns a ``ShardedStore`` or None (see training/preparation.py).
    """
    entries = registry.entries("mixing").values()
    return [each for each in entries if any(getattr(data, key, None) for key in each.facts["keys"])]


def check_has_text(data: DataSection, config: Path) -> None:
    """Raise ConfigError if ``data``, from the config file ``config``, has no text to train on."""
    if not open_kind(data).split_names():
        run = config.parent.as_posix() if config.name == "config.yaml" else "RUN"
        raise ConfigError(
            f"{config}: data.kind {data.kind} has no text to train on; write a config with base: "
            f"{run}/config.yaml, init: {run} and data of another kind"
        )


def check_has_splits(data: DataSection, run: Path, advice: str) -> None:
    """If a run has no text, raise a CorpusError that ends with ``advice``."""
    if not open_kind(data).split_names():
        raise CorpusError(f"{run}: an {data.kind} model comes without text; {advice}")


def check_split(data: DataSection, split: str) -> None:
    """Raise MissingTextError if the text of ``data`` has no split with this name."""
    names = open_kind(data).split_names()
    if not names:
        raise MissingTextError(
            f"data.kind {data.kind} has no split '{split}', because the model came without text"
        )
    if split not in names:
        hint = did_you_mean(split, names) or f"choose from {', '.join(names)}"
        raise MissingTextError(f"data.kind {data.kind} has no split '{split}'; {hint}")
