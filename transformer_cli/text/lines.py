"""What learning and encoding ask of text: lines, and a way to show that they are gone through."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol


class Lines(Protocol):
    """Lines of text that can be gone through several times: a list, or files read anew."""

    def __iter__(self) -> Iterator[str]: ...

    def __len__(self) -> int: ...


Progress = Callable[[Iterable[str], str], Iterable[str]]
"""Wraps a pass over lines, given a label, as tqdm would."""
