"""The pairs of a corpus while it is decided about them, in parts: text, and arrays in files.

Files are written once. Two workers may write the same one at the same time, as both were given one
task; so each appears under its name when it is whole.

Keys of pairs that occur more than once are found without holding all keys anywhere. Each part
writes its different keys sorted, cut into partitions by their value. A worker takes one partition,
of all parts, and notes of each key whether other parts have it too. So a worker holds some millions
of keys, whatever the corpus has. One sort in memory, of 16 bytes a pair, would do up to some 200
million pairs; but then all keys would have to come to one process, which is slow on a cluster, and
corpora of the web are larger.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import numpy as np

_INDEX = np.dtype("<u8")
_NOWHERE, _LATER, _EARLIER = 0, 1, 2  # what other parts have a key


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


# --- keys that occur more than once ---------------------------------------------------------------


@dataclass(frozen=True)
class KeyExchange:
    """Keys of one kind, between parts and partitions."""

    directory: Path
    name: str
    """Of these keys in names of files."""
    parts: int
    partitions: int

    def scatter(self, part: int, keys: np.ndarray) -> None:
        """Write the keys of a part, 64 bits each."""
        ordered = np.sort(keys)
        unique = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(keys)]]
        edges = [(1 << 64) * each // self.partitions for each in range(1, self.partitions)]
        cuts = np.searchsorted(unique, np.array(edges, np.uint64))
        save_segments(self._keys(part), np.split(unique, cuts))

    def compare(self, partition: int) -> None:
        """Compare the keys of a partition, once all parts have written theirs."""
        segments = [
            load_segment(self._keys(part), partition, self.partitions, np.uint64)
            for part in range(self.parts)
        ]
        ends = np.cumsum([len(segment) for segment in segments])[:-1]
        keys = np.concatenate(segments)
        segments.clear()
        order = np.argsort(keys, kind="stable")  # equal keys in the order of the parts
        keys = keys[order]
        is_same = keys[1:] == keys[:-1]
        found = np.full(len(keys), _NOWHERE, np.uint8)
        found[order[:-1][is_same]] = _LATER
        found[order[1:][is_same]] = _EARLIER
        save_segments(self._found(partition), np.split(found, ends))

    def find_repeats(self, part: int, keys: np.ndarray) -> np.ndarray:
        """Return a mask of the part's keys that occur earlier, once all partitions are compared."""
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        is_first = first[inverse] == np.arange(len(keys))
        return np.asarray((self._gather(part) == _EARLIER)[inverse] | ~is_first)

    def find_repeated(self, part: int, keys: np.ndarray) -> np.ndarray:
        """Return a mask of the part's keys that occur elsewhere, earlier or later."""
        _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
        return np.asarray(((self._gather(part) != _NOWHERE) | (counts > 1))[inverse])

    def _gather(self, part: int) -> np.ndarray:
        """Return what was found about the different keys of a part, sorted."""
        segments = [
            load_segment(self._found(partition), part, self.parts, np.uint8)
            for partition in range(self.partitions)
        ]
        return np.concatenate(segments)

    def _keys(self, part: int) -> Path:
        return self.directory / f"{self.name}.keys-{part}"

    def _found(self, partition: int) -> Path:
        return self.directory / f"{self.name}.found-{partition}"
