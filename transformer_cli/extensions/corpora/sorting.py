"""Where the pairs of a corpus go: to a split that is drawn, or to those left out.

Splits are drawn by pair, so that no side of a held-out pair is trained on. Held out are pairs whose
sides occur nowhere else, as long as there are enough. Of others, all pairs that share a side with
them are left out of the training text. Which pairs are held out depends on the seed and on their
text, not on their place.

Parts have the columns ``src`` and ``tgt``, digests of the sides, and ``reason``, which is negative
for pairs that no filter rejects.
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from heapq import merge
from itertools import chain, compress, count
from pathlib import Path
from typing import NamedTuple

import numpy as np

from transformer_cli.base.errors import ConfigError
from transformer_cli.data.corpus import ParallelFiles
from transformer_cli.extensions.checks.digests import is_among
from transformer_cli.extensions.checks.near_copies import HeldOutPairs, cut_held_out
from transformer_cli.extensions.corpora.deciding import REASON
from transformer_cli.extensions.corpora.settings import SplitConfig
from transformer_cli.extensions.corpora.spool import KeyExchange, Part, new_file

TRAIN, VAL, TEST, LEFT_OUT = 0, 1, 2, -1
SPLITS = {TRAIN: "train", VAL: "val", TEST: "test"}
HELD_OUT = "held_out"
"""Reason why a pair is left out that shares a side with val or test."""
DROPPED = "dropped.tsv"
_EXAMPLES = 20  # of a reason, at most
_SIDES = ("src", "tgt")
_NEAR = "near"
_ALONE, _OTHERS = "alone", "others"
CANDIDATE = np.dtype(
    [("draw", "<u8"), ("part", "<i8"), ("place", "<i8"), ("src", "<u8"), ("tgt", "<u8")]
)
"""A pair that may be held out: its draw, its part and place there, digests of its sides."""
_READ_AT_ONCE = 4096


# --- drawing --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draw:
    """What is drawn, and of what."""

    split: SplitConfig
    may_hold_out: tuple[bool, ...]
    """Of each source."""
    sides: tuple[KeyExchange, KeyExchange]
    """Of the digests of pairs that no filter rejects."""

    @property
    def wanted(self) -> int:
        """Number of pairs to hold out."""
        return self.split.val + self.split.test


def scatter_sides(draw: Draw, part: Part) -> None:
    """Write the digests of a part's sides for those who compare them."""
    for name, exchange in zip(_SIDES, draw.sides, strict=True):
        exchange.scatter(part.place, part.load(name, np.uint64)[_kept(part)])


def hold_out(draw: Draw, parts: Sequence[Part], executor: Executor) -> np.ndarray:
    """Return the pairs to hold out, at most as many as are wanted, first those for test.

    ``scatter_sides`` was called for all parts.
    """
    for exchange in draw.sides:
        list(executor.map(exchange.compare, range(exchange.partitions)))
    find_alone, find_others = (partial(_write_candidates, draw, name) for name in (_ALONE, _OTHERS))
    held_out = np.empty(0, CANDIDATE)
    for part, _ in zip(parts, executor.map(find_alone, parts), strict=True):
        more = np.fromfile(part.path(_ALONE), CANDIDATE)
        both = np.concatenate((held_out, more))
        held_out = both[np.argsort(both["draw"], kind="stable")][: draw.wanted]
    if len(held_out) == draw.wanted:
        return held_out
    list(executor.map(find_others, parts))
    others = merge(*map(_read_others, parts), key=lambda other: other["draw"])
    return np.concatenate((held_out, _choose(held_out, others, draw.wanted)))


def mark_near(
    held_out: np.ndarray, languages: tuple[str, str], parts: Sequence[Part], executor: Executor
) -> None:
    """Write for each part which pairs are near-copies of held-out ones."""
    chosen = (held_out["place"][held_out["part"] == part.place] for part in parts)
    pairs = list(chain.from_iterable(executor.map(_read_pairs, parts, chosen)))
    list(executor.map(partial(_mark_near, pairs, languages), parts))


def _read_pairs(part: Part, places: np.ndarray) -> list[tuple[str, str]]:
    is_wanted = np.isin(np.arange(part.count), places)
    return list(compress(_pairs(part), is_wanted.tolist()))


def _mark_near(pairs: Sequence[tuple[str, str]], languages: tuple[str, str], part: Part) -> None:
    is_near = np.zeros(part.count, bool)
    for some in cut_held_out(pairs, languages):
        is_near |= HeldOutPairs(pairs[some], languages).find_near(_pairs(part))
    part.save(_NEAR, is_near)


def check_enough(split: SplitConfig, left: int, held_out: int, trained: int) -> None:
    """Raise ConfigError unless so many pairs of those that are left make all splits."""
    if held_out < split.val + split.test or not trained:
        near = " (near-copies of those are not)" if split.near else ""
        raise ConfigError(
            f"data.split: {split.val:,} pairs for val and {split.test:,} for test are asked for, "
            f"but of {left:,} that are left, {held_out:,} could be held out and {trained:,} "
            f"trained on{near}; ask for fewer"
        )


def find_splits(part: Part, held_out: np.ndarray, split: SplitConfig) -> np.ndarray:
    """Return the split of each pair: ``TRAIN``, ``VAL``, ``TEST`` or ``LEFT_OUT``."""
    in_train = _kept(part)
    for name in _SIDES:
        in_train &= ~is_among(part.load(name, np.uint64), np.unique(held_out[name]))
    if split.near == "apart":
        in_train &= ~part.load(_NEAR, np.bool_)
    splits = np.where(in_train, TRAIN, LEFT_OUT).astype(np.int8)
    for number, chosen in ((TEST, held_out[: split.test]), (VAL, held_out[split.test :])):
        splits[chosen["place"][chosen["part"] == part.place]] = number
    return splits


def _pairs(part: Part) -> Iterator[tuple[str, str]]:
    return ParallelFiles(*(part.path(f"{side}.txt") for side in _SIDES)).pairs()


def _kept(part: Part) -> np.ndarray:
    return part.load("reason", np.int8) < 0


def _write_candidates(draw: Draw, name: str, part: Part) -> None:
    """Write those pairs of a part that may be held out, in the order they are drawn in.

    Either those, at most as many as are wanted, of which no side occurs elsewhere (``_ALONE``); or
    all that have a side that does (``_OTHERS``).
    """
    places = np.flatnonzero(_kept(part))
    sides = tuple(part.load(side, np.uint64)[places] for side in _SIDES)
    is_alone = np.ones(len(places), bool)
    for digests, exchange in zip(sides, draw.sides, strict=True):
        is_alone &= ~exchange.find_repeated(part.place, digests)
    is_wanted = is_alone if name == _ALONE else ~is_alone
    if not draw.may_hold_out[part.source]:
        is_wanted[:] = False
    numbers = _draws(sides, draw.split.seed)
    chosen = np.flatnonzero(is_wanted)
    chosen = chosen[np.argsort(numbers[chosen], kind="stable")]
    if name == _ALONE:
        chosen = chosen[: draw.wanted]
    found = np.empty(len(chosen), CANDIDATE)
    found["part"] = part.place
    found["place"] = places[chosen]
    found["draw"], found["src"], found["tgt"] = (each[chosen] for each in (numbers, *sides))
    part.save(name, found)


def _read_others(part: Part) -> Iterator[np.void]:
    path, read = part.path(_OTHERS), 0  # opened anew each time, as there may be thousands
    while len(some := np.fromfile(path, CANDIDATE, _READ_AT_ONCE, offset=read)):
        yield from some
        read += some.nbytes


def _choose(held_out: np.ndarray, others: Iterable[np.void], wanted: int) -> np.ndarray:
    """Return the first of ``others`` that share no side with one another or those held out."""
    chosen: list[np.void] = []
    seen_src, seen_tgt = (set(held_out[side].tolist()) for side in _SIDES)
    for other in others:
        if len(held_out) + len(chosen) == wanted:
            break
        src, tgt = (int(other[side]) for side in _SIDES)
        if src not in seen_src and tgt not in seen_tgt:
            chosen.append(other)
            seen_src.add(src)
            seen_tgt.add(tgt)
    return np.array(chosen, CANDIDATE)


def _draws(sides: tuple[np.ndarray, ...], seed: int) -> np.ndarray:
    """Return a random number for each pair, a function of its text and the seed."""
    src, tgt = sides
    salt = blake2b(str(seed).encode(), digest_size=8).digest()
    numbers = src ^ np.uint64(int.from_bytes(salt, "little"))
    # Twice, so that each bit depends on all bits of both.
    for addend in (tgt, np.uint64(0)):
        numbers = mix(numbers + addend)
    return numbers


def mix(numbers: np.ndarray) -> np.ndarray:
    """Return 64-bit numbers of which each bit depends on all: the finalizer of MurmurHash3."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53, 1):
        numbers = (numbers ^ (numbers >> np.uint64(33))) * np.uint64(factor)
    return numbers


# --- writing --------------------------------------------------------------------------------------


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
    split: SplitConfig | None
    held_out: Path
    """File of the pairs that are held out, if there is a ``split``."""
    with_dropped: bool
    """Whether to write what is left out, and to give examples."""

    @property
    def fates(self) -> list[str]:
        """Names of the splits, then of the reasons."""
        return [*SPLITS.values(), *self.reasons]


def sort_part(sorting: Sorting, part: Part) -> SortedPart:
    """Write the pairs of a part into files for each split, and one for those left out."""
    fates = _find_fates(sorting, part)
    counts = np.bincount(fates, minlength=len(sorting.fates))
    files = {
        f"{SPLITS[fate]}.{side}": (fate, side) for fate in SPLITS for side in _SIDES if counts[fate]
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


def _find_fates(sorting: Sorting, part: Part) -> np.ndarray:
    """Return what becomes of each pair, as its place in ``Sorting.fates``."""
    reasons = part.load(REASON, np.int8)
    if sorting.split is None:
        splits = np.where(reasons < 0, TRAIN, LEFT_OUT)
    else:
        splits = find_splits(part, np.fromfile(sorting.held_out, CANDIDATE), sorting.split)
    reasons[reasons < 0] = len(sorting.reasons) - 1
    return np.where(splits == LEFT_OUT, len(SPLITS) + reasons, splits)


def _write_dropped(sorting: Sorting, part: Part, fates: np.ndarray) -> list[DroppedPair]:
    """Write what is left out; return examples."""
    numbers = part.first + 1 + np.flatnonzero(fates >= len(SPLITS))
    chosen = {int(numbers[place]) for place in draw_examples(numbers, fates[fates >= len(SPLITS)])}
    examples = []
    with ExitStack() as stack:
        file = stack.enter_context(new_file(part.path(DROPPED)))
        texts = (stack.enter_context(part.path(f"{side}.txt").open("rb")) for side in _SIDES)
        is_dropped = (fates >= len(SPLITS)).tobytes()
        for place, *lines in compress(zip(count(), *texts, strict=False), is_dropped):
            src, tgt = (line.decode().removesuffix("\n") for line in lines)
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
