"""Training text as tokenizers read it: lines, and a progress bar around each pass over them."""

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

# Trainers hold their lines in memory, and more of them than this improve nothing.
MOST_LINES = 1_000_000


class Lines(Protocol):
    """Lines of text that can be iterated over several times: a list, or files read again."""

    def __iter__(self) -> Iterator[str]: ...

    def __len__(self) -> int: ...


ProgressBar = Callable[[Iterable[str], str], Iterable[str]]
"""Wraps an iterable of lines, given a label, in a progress bar, as tqdm does."""


@dataclass(frozen=True)
class BothSides:
    """The lines of the source, then those of the target."""

    src: Lines
    tgt: Lines

    def __iter__(self) -> Iterator[str]:
        yield from self.src
        yield from self.tgt

    def __len__(self) -> int:
        return len(self.src) + len(self.tgt)


class TrainerInput:
    """The lines that a library's subword trainer reads, once.

    Args:
        lines: the training text.
        count: the number of its lines. Of more than a million, a uniform sample is taken.
        lowercase: whether they are lowercased.
    """

    def __init__(self, lines: Iterable[str], count: int, lowercase: bool) -> None:
        self._lines = lines if count <= MOST_LINES else sample_lines(lines, count, MOST_LINES)
        self._lowercase = lowercase
        self.failure: BaseException | None = None
        """The error that ended the reading, if any: libraries turn it into one of their own."""

    def __iter__(self) -> Iterator[str]:
        try:
            for line in self._lines:
                yield line.lower() if self._lowercase else line
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            self.failure = error
            raise


def sample_lines(lines: Iterable[str], count: int, size: int) -> Iterator[str]:
    """Yield ``size`` of ``count`` lines, the same ones every time, all equally likely.

    This is selection sampling: Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S.
    SentencePiece's own sampling differs from process to process.
    """
    draws = random.Random(1)
    wanted = size
    for seen, line in enumerate(lines):
        if draws.random() * (count - seen) < wanted:
            wanted -= 1
            yield line
