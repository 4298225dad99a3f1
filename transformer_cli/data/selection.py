"""Splits drawn by pair, so that no side of a held-out pair is trained on."""

from hashlib import blake2b

import numpy as np

from transformer_cli.config.data_schema import SplitConfig
from transformer_cli.data.corpus import find_repeated, is_among
from transformer_cli.errors import CorpusError

TRAIN, VAL, TEST, LEFT_OUT = 0, 1, 2, -1

Sides = tuple[np.ndarray, np.ndarray]
"""Digests of the source and the target of each pair, as ``Digests`` has them."""


def draw_splits(
    sides: Sides, kept: np.ndarray, may_hold_out: np.ndarray, split: SplitConfig
) -> np.ndarray:
    """Return the split of each pair: ``TRAIN``, ``VAL``, ``TEST`` or ``LEFT_OUT``.

    Held out are pairs whose sides occur nowhere else, as long as there are enough. Of others, all
    pairs that share a side with them are left out of the training text. Which pairs are held out
    depends on the seed and on their text, not on their place.

    Args:
        sides: of all pairs.
        kept: mask of the pairs that no filter rejects.
        may_hold_out: mask of the pairs that may be held out.
        split: numbers of pairs, and the seed; CorpusError is raised if there are too few pairs.
    """
    wanted = split.test + split.val
    held_out = _draw(sides, kept, kept & may_hold_out, wanted, split.seed)
    splits = np.where(kept, TRAIN, LEFT_OUT).astype(np.int8)
    in_train = kept.copy()
    in_train[held_out] = False
    for digests in sides:
        in_train &= ~is_among(digests, np.unique(digests[held_out]))
    splits[kept & ~in_train] = LEFT_OUT
    splits[held_out[: split.test]] = TEST
    splits[held_out[split.test :]] = VAL
    if len(held_out) < wanted or not in_train.any():
        raise CorpusError(
            f"data.split: {split.val:,} pairs for val and {split.test:,} for test are asked for, "
            f"but of {int(kept.sum()):,} that are left, {len(held_out):,} could be held out and "
            f"{int(in_train.sum()):,} trained on; ask for fewer"
        )
    return splits


def _draw(
    sides: Sides, kept: np.ndarray, candidates: np.ndarray, wanted: int, seed: int
) -> np.ndarray:
    """Return the places of at most ``wanted`` pairs of which no two share a side."""
    is_alone = candidates.copy()
    for digests in sides:
        is_alone &= ~is_among(digests, find_repeated(digests[kept]))
    draws = _draws(sides, seed)
    alone = _smallest(draws, is_alone, wanted)
    if len(alone) == wanted:
        return alone
    drawn = alone.tolist()
    seen_src, seen_tgt = (set(digests[alone].tolist()) for digests in sides)
    others = np.flatnonzero(candidates & ~is_alone)
    for place in map(int, others[np.argsort(draws[others], kind="stable")]):
        if len(drawn) == wanted:
            break
        src, tgt = (int(digests[place]) for digests in sides)
        if src not in seen_src and tgt not in seen_tgt:
            drawn.append(place)
            seen_src.add(src)
            seen_tgt.add(tgt)
    return np.array(drawn, np.int64)


def _smallest(draws: np.ndarray, mask: np.ndarray, count: int) -> np.ndarray:
    """Return the places in the mask of the smallest numbers, at most ``count``, in their order."""
    numbers = draws[mask]
    if 0 < count < len(numbers):
        numbers.partition(count - 1)
        mask = mask & (draws <= numbers[count - 1])
    places = np.flatnonzero(mask)
    return places[np.argsort(draws[places], kind="stable")][:count]


def _draws(sides: Sides, seed: int) -> np.ndarray:
    """Return a random number for each pair, a function of its text and the seed."""
    src, tgt = sides
    salt = blake2b(str(seed).encode(), digest_size=8).digest()
    numbers = src ^ np.uint64(int.from_bytes(salt, "little"))
    shifted = np.empty_like(numbers)
    # Twice the finalizer of MurmurHash3, of which each bit depends on all bits.
    for addend in (tgt, np.uint64(0)):
        numbers += addend
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53, 1):
            np.right_shift(numbers, np.uint64(33), out=shifted)
            numbers ^= shifted
            numbers *= np.uint64(factor)
    return numbers
