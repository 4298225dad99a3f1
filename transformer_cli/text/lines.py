"""What learning and encoding ask of text: lines, and a way to show that they are gone through."""

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

# What learns subwords holds its lines. More of them than this teach it nothing new.
MOST_LINES = 1_000_000


class Lines(Protocol):
    """Lines of text that can be gone through several times: a list, or files read anew."""

    def __iter__(self) -> Iterator[str]: ...

    def __len__(self) -> int: ...


Progress = Callable[[Iterable[str], str], Iterable[str]]
"""Wraps a pass over lines, given a label, as tqdm would."""


@dataclass(frozen=True)
class Joined:
    """The lines of one side, then those of the other."""

    src: Lines
    tgt: Lines

    def __iter__(self) -> Iterator[str]:
        yield from self.src
        yield from self.tgt

    def __len__(self) -> int:
        return len(self.src) + len(self.tgt)


class LearningText:
    """What a library is shown that learns subwords, read once.

    Args:
        lines: the training text.
        count: the number of its lines. Of very many a million are taken, evenly at random.
        lowercase: whether they are lowercased.
    """

    def __init__(self, lines: Iterable[str], count: int, lowercase: bool) -> None:
        self._lines = lines if count <= MOST_LINES else sample(lines, count, MOST_LINES)
        self._lowercase = lowercase
        self.failure: BaseException | None = None
        """What ended the reading, if anything: a library makes its own error of it."""

    def __iter__(self) -> Iterator[str]:
        try:
            for line in self._lines:
                yield line.lower() if self._lowercase else line
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            self.failure = error
            raise


def sample(lines: Iterable[str], count: int, size: int) -> Iterator[str]:
    """Choose ``size`` of ``count`` lines, the same ones every time, all equally likely.

    This is selection sampling: Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S.
    SentencePiece's own sampling depends on the process that it happens in.
    """
    draws = random.Random(1)
    wanted = size
    for seen, line in enumerate(lines):
        if draws.random() * (count - seen) < wanted:
            wanted -= 1
            yield line
