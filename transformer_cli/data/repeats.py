"""Keys of pairs that occur more than once, found without holding all keys anywhere.

Each part of a corpus writes its different keys sorted, cut into partitions by their value. A worker
takes one partition, of all parts, and notes of each key whether other parts have it too. So a
worker holds some millions of keys, whatever the corpus has.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from transformer_cli.data.spool import load_segment, save_segments

_NOWHERE, _LATER, _EARLIER = 0, 1, 2  # what other parts have a key


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
