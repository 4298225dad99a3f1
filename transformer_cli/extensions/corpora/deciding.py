"""Decide for each pair of a corpus which filter rejects it, or which split it goes to.

Worker processes return what ``FilterPass`` collects about each pair, in at most 60 bytes: a flag, a
number or a digest (hash) per filter, and a digest per line. The main process then decides.

Held-out pairs are chosen so that neither their sources nor their targets are trained on. Pairs that
share no line with other pairs are chosen first. If there are too few, others are held out as well,
and all pairs that share a source or target with them are left out of the training text. The choice
depends on the seed and on the text of the pairs, not on their order.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from itertools import islice

import numpy as np

from transformer_cli.base.errors import ConfigError
from transformer_cli.data.corpus import in_batches
from transformer_cli.extensions.checks import rules
from transformer_cli.extensions.checks.digests import digest, find_repeated, fold_side, is_among
from transformer_cli.extensions.corpora.settings import SplitConfig

TRAIN, VAL, TEST = 0, 1, 2
SPLITS = {TRAIN: "train", VAL: "val", TEST: "test"}

# --- filters --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Filtering:
    """The filters of a corpus, in a form that can be sent to worker processes."""

    names: tuple[str, ...]
    settings: rules.FilterSettings
    active: tuple[frozenset[str], ...]  # for each source, the names of its filters
    with_sides: bool  # whether digests of both sides' lines are needed, to choose held-out pairs

    @property
    def filters(self) -> list[rules.Filter]:
        """All filters, in the order in which they are applied."""
        return _build(self.names, self.settings)


_build = cache(rules.build_filters)  # some take half a second


def judge(filtering: Filtering, source: int, pairs: rules.Pairs) -> list[np.ndarray]:
    """Return, as arrays, a value per pair for each filter, then digests of sources and targets."""
    passed = rules.FilterPass(filtering.filters, filtering.active[source])
    for batch in in_batches(pairs):
        passed.add(batch)
    sides = zip(*pairs, strict=True) if filtering.with_sides else ()
    return [*passed.columns(), *(digest(map(fold_side, lines)) for lines in sides)]


def decide(
    filtering: Filtering, columns: Sequence[np.ndarray], source_of: np.ndarray
) -> np.ndarray:
    """Return, for each pair, the index of the filter that rejects it (int8), or -1 if none does.

    ``columns`` are the arrays from ``judge``, each concatenated over all pairs; ``source_of`` has
    the index of each pair's data source.
    """
    reasons = np.full(len(source_of), -1, np.int8)
    for place, (filter_, known) in enumerate(zip(filtering.filters, columns, strict=False)):
        concerned = np.array([filter_.name in active for active in filtering.active])[source_of]
        # Repeat filters also count pairs of other sources.
        left = reasons < 0 if isinstance(filter_, rules.RepeatFilter) else (reasons < 0) & concerned
        places = np.flatnonzero(left)[filter_.find(known[left])]
        reasons[places[concerned[places]]] = place
    return reasons


# --- splits ---------------------------------------------------------------------------------------


def draw(
    split: SplitConfig, may_hold_out: np.ndarray, sides: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the held-out pairs' indices (test first) and a mask of pairs sharing a line with them.

    ``split`` says how many pairs to hold out, if there are enough. ``may_hold_out`` is a mask of
    the pairs that may be drawn. ``sides`` are the digests of all source and of all target lines.
    """
    wanted = split.val + split.test
    is_alone = np.ones(len(may_hold_out), bool)
    for digests in sides:
        is_alone &= ~is_among(digests, find_repeated(digests))
    numbers = _draw_numbers(sides, split.seed)

    def candidates() -> Iterator[int]:
        for mask in (is_alone, ~is_alone):
            places = np.flatnonzero(mask & may_hold_out)
            yield from map(int, places[np.argsort(numbers[places], kind="stable")])

    held_out = np.fromiter(islice(_choose_apart(candidates(), sides), wanted), np.int64)
    shares = np.zeros(len(may_hold_out), bool)
    for digests in sides:
        shares |= is_among(digests, np.unique(digests[held_out]))
    return held_out, shares


def _choose_apart(places: Iterable[int], sides: Sequence[np.ndarray]) -> Iterator[int]:
    """Yield the indices of pairs that share no line with those yielded before."""
    src, tgt = sides
    seen_src, seen_tgt = set[int](), set[int]()
    for place in places:
        if src[place] not in seen_src and tgt[place] not in seen_tgt:
            seen_src.add(src[place])
            seen_tgt.add(tgt[place])
            yield place


def _draw_numbers(sides: Sequence[np.ndarray], seed: int) -> np.ndarray:
    """Return a random number for each pair that depends only on its text and the seed."""
    src, tgt = sides
    salt = blake2b(str(seed).encode(), digest_size=8).digest()
    numbers = src ^ np.uint64(int.from_bytes(salt, "little"))
    # Mix twice, so that each bit depends on all bits of both sides.
    for addend in (tgt, np.uint64(0)):
        numbers = mix(numbers + addend)
    return numbers


def mix(numbers: np.ndarray) -> np.ndarray:
    """Mix 64-bit numbers so that each bit depends on all bits (the finalizer of MurmurHash3)."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53, 1):
        numbers = (numbers ^ (numbers >> np.uint64(33))) * np.uint64(factor)
    return numbers


def check_enough(split: SplitConfig, left: int, held_out: int, trained: int) -> None:
    """Raise ConfigError unless enough pairs are left for all splits."""
    if held_out < split.val + split.test or not trained:
        raise ConfigError(
            f"data.split: asks for {split.val:,} pairs for val and {split.test:,} for test, "
            f"but of the {left:,} pairs left, {held_out:,} could be held out and {trained:,} "
            "trained on; ask for fewer"
        )
