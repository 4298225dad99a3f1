"""Write the pairs of a corpus where they belong: into a split's files, or those left out."""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from transformer_cli.extensions.checks.near_copies import HeldOutPairs, cut_held_out
from transformer_cli.extensions.corpora.deciding import (
    SIDES,
    SPLITS,
    Part,
    mix,
    new_file,
    read_part,
)

HELD_OUT = "held_out"
"""Reason why a pair is left out that shares a side with val or test."""
DROPPED = "dropped.tsv"
_EXAMPLES = 20  # of a reason, at most


def read_pairs(part: Part, is_wanted: np.ndarray) -> list[tuple[str, str]]:
    """Return the pairs of a part that are wanted."""
    return list(compress(read_part(part), is_wanted.tolist()))


def find_near(
    pairs: Sequence[tuple[str, str]], languages: tuple[str, str], part: Part
) -> np.ndarray:
    """Return a mask of the pairs of a part that are near-copies of ``pairs``."""
    is_near = np.zeros(part.count, bool)
    for some in cut_held_out(pairs, languages):
        is_near |= HeldOutPairs(pairs[some], languages).find_near(read_part(part))
    return is_near


class DroppedPair(NamedTuple):
    """A pair that is left out."""

    number: int
    """Its place among all pairs of all sources, from 1."""
    source: str
    reason: str
    """Name of the filter, or ``HELD_OUT``."""
    src: str
    tgt: str


class SortedPart(NamedTuple):
    """What became of the pairs of a part."""

    counts: np.ndarray
    """Pairs of each split, then those left out for each reason."""
    files: list[str]
    """Names of what was written, as the files of a corpus are named."""
    examples: list[DroppedPair]
    """Of each reason those that ``draw_examples`` chooses."""


@dataclass(frozen=True)
class Sorting:
    """How pairs are sorted, as it is sent to workers."""

    reasons: tuple[str, ...]
    """Names of the filters, and ``HELD_OUT``."""
    sources: tuple[str, ...]
    """Names of the sources."""
    with_dropped: bool
    """Whether to write what is left out, and to give examples."""

    @property
    def fates(self) -> list[str]:
        """Names of the splits, then of the reasons."""
        return [*SPLITS.values(), *self.reasons]


def sort_part(sorting: Sorting, part: Part, fates: np.ndarray) -> SortedPart:
    """Write the pairs of a part into files for each split, and one for those left out.

    ``fates`` are places in ``Sorting.fates``.
    """
    counts = np.bincount(fates, minlength=len(sorting.fates))
    files = {
        f"{SPLITS[fate]}.{side}": (fate, side) for fate in SPLITS for side in SIDES if counts[fate]
    }
    for name, (fate, side) in files.items():
        with part.path(f"{side}.txt").open("rb") as text, new_file(part.path(name)) as file:
            file.writelines(compress(text, (fates == fate).tobytes()))
    if not sorting.with_dropped:
        return SortedPart(counts, [*files], [])
    return SortedPart(counts, [*files, DROPPED], _write_dropped(sorting, part, fates))


def append_part(part: Part, files: Iterable[str], directory: Path) -> None:
    """Append files that ``sort_part`` wrote to those in ``directory``; delete the part's text."""
    for name in files:
        with part.path(name).open("rb") as file, (directory / name).open("ab") as whole:
            shutil.copyfileobj(file, whole, 1 << 20)
    for name in (*files, "src.txt", "tgt.txt"):
        part.path(name).unlink()


def _write_dropped(sorting: Sorting, part: Part, fates: np.ndarray) -> list[DroppedPair]:
    """Write what is left out; return examples."""
    numbers = part.first + 1 + np.flatnonzero(fates >= len(SPLITS))
    chosen = {int(numbers[place]) for place in draw_examples(numbers, fates[fates >= len(SPLITS)])}
    examples = []
    with new_file(part.path(DROPPED)) as file:
        is_dropped = (fates >= len(SPLITS)).tobytes()
        for place, (src, tgt) in compress(enumerate(read_part(part)), is_dropped):
            reason = sorting.fates[fates[place]]
            source = sorting.sources[part.source]
            pair = DroppedPair(part.first + place + 1, source, reason, src, tgt)
            cells = (str(cell).replace("\t", " ") for cell in pair)
            file.write(("\t".join(cells) + "\n").encode())
            if pair.number in chosen:
                examples.append(pair)
    return examples


def draw_examples(numbers: np.ndarray, reasons: np.ndarray) -> np.ndarray:
    """Return the places of some pairs of each reason, as their numbers alone decide.

    So examples of the examples of several parts are those of all their pairs.
    """
    draws = mix(numbers.astype(np.uint64))
    chosen = [
        own[np.argsort(draws[own])[:_EXAMPLES]]
        for own in (np.flatnonzero(reasons == reason) for reason in np.unique(reasons))
    ]
    return np.sort(np.concatenate(chosen)) if chosen else np.empty(0, np.int64)


def merge_examples(*samples: Sequence[DroppedPair]) -> list[DroppedPair]:
    """Return the examples of several parts' examples, in order."""
    pairs = [pair for sample in samples for pair in sample]
    numbers = np.array([pair.number for pair in pairs], np.int64)
    return [
        pairs[place] for place in draw_examples(numbers, np.array([pair.reason for pair in pairs]))
    ]
