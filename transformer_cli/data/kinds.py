"""Kinds of data: how the text of each ``data.kind`` is found, and the kinds that need no more.

An extension adds a kind by a manifest entry of the interface ``corpus``, whose ``load`` is a
subclass of ``CorpusKind``.
"""

import hashlib
import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from transformer_cli.base.errors import CorpusError
from transformer_cli.base.locations import find_files, is_here
from transformer_cli.config.data_schema import CopyData, DataSection, FilePair, FilesData, ToyData
from transformer_cli.config.shipped import TOY, shipped_directory
from transformer_cli.data.corpus import ParallelFiles, ParallelText

D = TypeVar("D", bound=DataSection)

# Three lines in four are for training, so this many draws of the wrong kind (0.75^200) mean that
# there is no line of the right one.
_MAX_DRAWS = 200


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

    is_made = False
    """Whether a rule makes the text, so that nothing can be wrong with it."""
    has_few_words = False
    """Whether all pairs are near one another, as they are made of a few words."""
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

    def has_prepared(self, directory: Path, is_begun: bool) -> bool:
        """Return whether the text in a run's ``directory`` is what ``prepare`` would make.

        Raises:
            CorpusError: the run ``is_begun``, and its text is lost.
        """
        return True

    def prepare(self, preparation: Preparation) -> None:
        """Write the text into a run's directory, or bring what is there up to date.

        Raises:
            CorpusError: a source cannot be read, or nothing is left of the text.
            OSError: the text cannot be written.
        """

    def find_change(self, directory: Path) -> str | None:
        """Return a warning, 'setting: what', if a begun run's text is not what it would be now."""
        return None


class FilesKind(CorpusKind[FilesData]):
    """Pairs of text files."""

    def split_names(self) -> list[str]:
        """Return the names of the configured pairs."""
        return list(self._pairs)

    def open_split(self, split: str, place: Path | None) -> ParallelFiles:
        """Return a pair of files, which are not looked at before they are read."""
        pair = self._pairs[split]
        src, tgt = map(_find_file, (pair.src, pair.tgt), pair.sums)
        return ParallelFiles(src, tgt, encoding=pair.encoding)

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

    has_few_words = True

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


class CopyKind(CorpusKind[CopyData]):
    """The copy task."""

    is_made = has_few_words = True

    def split_names(self) -> list[str]:
        """Return the names of the three splits."""
        return ["train", "val", "test"]

    def open_split(self, split: str, place: Path | None) -> ParallelText:
        """Draw the lines."""
        return copy_lines(self.data, split)


def copy_lines(data: CopyData, split: str) -> ParallelText:
    """Draw lines of the copy task, such as ``3 1 10 7``, the same ones every time.

    No line of ``val`` or ``test`` is in ``train``, except where there are so few possible lines
    (a handful of symbols, a line of one or two) that a side would have none left.
    """
    generator = random.Random(f"copy task, {split}")
    symbols = [str(number) for number in range(1, data.symbols + 1)]
    training = split == "train"

    def draw() -> str:
        for _ in range(_MAX_DRAWS):
            line = " ".join(generator.choices(symbols, k=data.length))
            # A line is for training or not by itself alone, so that splits are disjoint.
            if (hashlib.sha256(line.encode()).digest()[0] >= 64) == training:
                break
        return line

    lines = [draw() for _ in range(data.train_lines if training else data.test_lines)]
    return ParallelText(lines, list(lines))
