"""The pairs of a corpus while it is decided about them, in parts: text, and arrays in files.

Files are written once. Two workers may write the same one at the same time, as both were given one
task; so each appears under its name when it is whole.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import numpy as np

_INDEX = np.dtype("<u8")


@dataclass(frozen=True)
class Part:
    """Neighbouring pairs of a source."""

    stem: Path
    """Its files are named so, and differ in their endings."""
    source: int
    """Number of the source."""
    count: int
    place: int = 0
    """Among all parts."""
    first: int = 0
    """Number of pairs before these."""

    def path(self, name: str) -> Path:
        """Return the path of one of the part's files."""
        return self.stem.with_name(f"{self.stem.name}.{name}")

    def save(self, name: str, array: np.ndarray) -> None:
        """Write an array."""
        save(self.path(name), array)

    def load(self, name: str, kind: type[np.generic]) -> np.ndarray:
        """Read an array that was written as this ``kind``."""
        return np.fromfile(self.path(name), kind)


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write; it is at ``path`` when the block ends well."""
    temporary = path.with_name(f"{path.name}-{uuid4().hex}")
    with temporary.open("wb") as file:
        yield file
    temporary.replace(path)


def save(path: Path, array: np.ndarray) -> None:
    """Write the elements of an array, without their kind."""
    with new_file(path) as file:
        array.tofile(file)


def save_segments(path: Path, segments: Sequence[np.ndarray]) -> None:
    """Write several arrays of one kind, to be read one by one."""
    ends = np.cumsum([0, *map(len, segments)]).astype(_INDEX)
    with new_file(path) as file:
        ends.tofile(file)
        for segment in segments:
            segment.tofile(file)


def load_segment(path: Path, number: int, segments: int, kind: type[np.generic]) -> np.ndarray:
    """Read one of the ``segments`` arrays that ``save_segments`` wrote."""
    start, end = map(int, np.fromfile(path, _INDEX, 2, offset=number * _INDEX.itemsize))
    offset = (segments + 1) * _INDEX.itemsize + start * np.dtype(kind).itemsize
    return np.fromfile(path, kind, end - start, offset=offset)
