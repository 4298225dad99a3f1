"""Splits drawn by pair, so that no side of a held-out pair is trained on.

Held out are pairs whose sides occur nowhere else, as long as there are enough. Of others, all pairs
that share a side with them are left out of the training text. Which pairs are held out depends on
the seed and on their text, not on their place.

Parts have the columns ``src`` and ``tgt``, digests of the sides, and ``reason``, which is negative
for pairs that no filter rejects.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from heapq import merge
from itertools import chain, compress

import numpy as np

from transformer_cli.config.data_schema import SplitConfig
from transformer_cli.data.corpus import ParallelFiles, is_among
from transformer_cli.data.near_copies import MAX_HELD_OUT, HeldOutPairs
from transformer_cli.data.repeats import KeyExchange
from transformer_cli.data.spool import Part
from transformer_cli.errors import CorpusError

TRAIN, VAL, TEST, LEFT_OUT = 0, 1, 2, -1

_SIDES = ("src", "tgt")
_NEAR = "near"
_ALONE, _OTHERS = "alone", "others"
CANDIDATE = np.dtype(
    [("draw", "<u8"), ("part", "<i8"), ("place", "<i8"), ("src", "<u8"), ("tgt", "<u8")]
)
"""A pair that may be held out: its draw, its part and place there, digests of its sides."""
_READ_AT_ONCE = 4096


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
    for first in range(0, len(pairs), MAX_HELD_OUT):
        some = HeldOutPairs(pairs[first : first + MAX_HELD_OUT], languages)
        is_near |= some.find_near(_pairs(part))
    part.save(_NEAR, is_near)


def check_enough(split: SplitConfig, left: int, held_out: int, trained: int) -> None:
    """Raise CorpusError unless so many pairs of those that are left make all splits."""
    if held_out < split.val + split.test or not trained:
        near = " (near-copies of those are not)" if split.near else ""
        raise CorpusError(
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
