"""What becomes of each pair of a corpus: a filter rejects it, or it goes to a split.

This process reads the text and writes it in parts. Workers note of each pair in a part what
``FilterPass`` does: a flag, a measure or a digest for each filter. The rest is decided in this
process, which holds those of one filter at a time: at most 60 bytes a pair.

Splits are drawn by pair, so that no side of a held-out pair is trained on. Held out are pairs whose
sides occur nowhere else, as long as there are enough. Of others, all pairs that share a side with
them are left out of the training text. Which pairs are held out depends on the seed and on their
text, not on their place.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import numpy as np

from transformer_cli.base.errors import ConfigError
from transformer_cli.data.corpus import in_batches
from transformer_cli.extensions.checks.digests import digest, find_repeated, fold_side, is_among
from transformer_cli.extensions.checks.rules import (
    Filter,
    FilterPass,
    RepeatFilter,
    build_filters,
)
from transformer_cli.extensions.corpora.settings import SplitConfig

TRAIN, VAL, TEST = 0, 1, 2
SPLITS = {TRAIN: "train", VAL: "val", TEST: "test"}
SIDES = ("src", "tgt")

# --- what workers note of the pairs ---------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """Neighbouring pairs of a source, as text and arrays in files."""

    stem: Path
    """Its files are named so, and differ in their endings."""
    source: int
    """Number of the source."""
    count: int
    first: int
    """Number of pairs before these."""

    def path(self, name: str) -> Path:
        return self.stem.with_name(f"{self.stem.name}.{name}")

    def save(self, name: str, array: np.ndarray) -> None:
        with new_file(self.path(name)) as file:
            array.tofile(file)


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write; it appears at ``path`` when the block ends well.

    Two workers may write the same file at the same time, as both were given one task.
    """
    temporary = path.with_name(f"{path.name}-{uuid4().hex}")
    with temporary.open("wb") as file:
        yield file
    temporary.replace(path)


def load_column(parts: Sequence[Part], name: str, kind: type[np.generic]) -> np.ndarray:
    """Read an array that all parts have written, one after another."""
    column = np.empty(sum(part.count for part in parts), kind)
    for part in parts:
        column[part.first : part.first + part.count] = np.fromfile(part.path(name), kind)
    return column


@dataclass(frozen=True)
class Filtering:
    """The filters of a corpus, as they are sent to workers."""

    names: tuple[str, ...]
    languages: tuple[str, str]
    active: tuple[frozenset[str], ...]
    """Names of the filters of each source."""
    with_sides: bool
    """Whether digests of the sides are needed too."""

    @property
    def filters(self) -> list[Filter]:
        """All filters, in the order in which they are applied."""
        return _build(self.names, *self.languages)


@cache  # some take half a second
def _build(names: tuple[str, ...], src_lang: str, tgt_lang: str) -> list[Filter]:
    return build_filters(names, src_lang, tgt_lang)


def write_part(stem: Path, source: int, first: int, pairs: Iterable[tuple[str, str]]) -> Part:
    """Write the text of a part, of which so many pairs are before it."""
    count = 0
    part = Part(stem, source, count, first)
    with ExitStack() as stack:
        files = [stack.enter_context(new_file(part.path(f"{side}.txt"))) for side in SIDES]
        for batch in in_batches(pairs):
            count += len(batch)
            for file, lines in zip(files, zip(*batch, strict=True), strict=True):
                file.write("".join([f"{line}\n" for line in lines]).encode())
    return replace(part, count=count)


def read_part(part: Part) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a part."""
    with ExitStack() as stack:
        files = (stack.enter_context(part.path(f"{side}.txt").open("rb")) for side in SIDES)
        for src, tgt in zip(*files, strict=True):
            yield src[:-1].decode(), tgt[:-1].decode()


def judge_part(filtering: Filtering, part: Part) -> None:
    """Write what has to be known of a part's pairs."""
    judge = FilterPass(filtering.filters, filtering.active[part.source])
    digests = bytearray(), bytearray()
    for batch in in_batches(read_part(part)):
        judge.add(batch)
        if filtering.with_sides:
            for own, lines in zip(digests, zip(*batch, strict=True), strict=True):
                own += digest(map(fold_side, lines)).tobytes()
    for place, column in enumerate(judge.columns()):
        part.save(f"filter-{place}", column)
    for side, own in zip(SIDES, digests, strict=True):
        part.save(side, np.frombuffer(own, np.uint64))


# --- filters --------------------------------------------------------------------------------------


def decide(filtering: Filtering, parts: Sequence[Part]) -> np.ndarray:
    """Return for each pair the place of the filter that rejects it, int8; -1: none does."""
    reasons = np.full(sum(part.count for part in parts), -1, np.int8)
    for place, filter_ in enumerate(filtering.filters):
        is_active = [filter_.name in active for active in filtering.active]
        concerned = of_sources(is_active, parts)
        # What pairs of other sources repeat counts too.
        left = reasons < 0 if isinstance(filter_, RepeatFilter) else (reasons < 0) & concerned
        rejected = filter_.find(load_column(parts, f"filter-{place}", filter_.known)[left])
        places = np.flatnonzero(left)[rejected]
        reasons[places[concerned[places]]] = place
    return reasons


def of_sources(values: Sequence[Any], parts: Sequence[Part]) -> np.ndarray:
    """Return for each pair the value of its source."""
    found = np.array(values)[[part.source for part in parts]]
    return np.repeat(found, [part.count for part in parts])


# --- splits ---------------------------------------------------------------------------------------


def draw(
    split: SplitConfig, may_hold_out: np.ndarray, sides: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return which pairs are held out, those for test first, and which share a side with them.

    Args:
        split: how many pairs are wanted; if they cannot all be had, there are fewer.
        may_hold_out: a mask of the pairs that may be drawn.
        sides: digests of the sources, and of the targets.
    """
    wanted = split.val + split.test
    is_alone = np.ones(len(may_hold_out), bool)
    for digests in sides:
        is_alone &= ~is_among(digests, find_repeated(digests))
    numbers = _draw_numbers(sides, split.seed)

    def choose(mask: np.ndarray) -> np.ndarray:
        places = np.flatnonzero(mask & may_hold_out)
        return places[np.argsort(numbers[places], kind="stable")]

    chosen: list[int] = choose(is_alone)[:wanted].tolist()
    if len(chosen) < wanted:
        chosen += _choose_apart(chosen, choose(~is_alone), sides, wanted)
    held_out = np.array(chosen, np.int64)
    shares = np.zeros(len(may_hold_out), bool)
    for digests in sides:
        shares |= is_among(digests, np.unique(digests[held_out]))
    return held_out, shares


def _choose_apart(
    held_out: Sequence[int], others: np.ndarray, sides: Sequence[np.ndarray], wanted: int
) -> Iterator[int]:
    """Yield the first of ``others`` that share no side with one another or those held out."""
    missing = wanted - len(held_out)
    seen = [set(digests[held_out].tolist()) for digests in sides]
    for place in others.tolist():
        if not missing:
            return
        own = [int(digests[place]) for digests in sides]
        if not any(digest in known for digest, known in zip(own, seen, strict=True)):
            missing -= 1
            for digest, known in zip(own, seen, strict=True):
                known.add(digest)
            yield place


def _draw_numbers(sides: Sequence[np.ndarray], seed: int) -> np.ndarray:
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


def check_enough(split: SplitConfig, left: int, held_out: int, trained: int) -> None:
    """Raise ConfigError unless so many pairs of those that are left make all splits."""
    if held_out < split.val + split.test or not trained:
        raise ConfigError(
            f"data.split: {split.val:,} pairs for val and {split.test:,} for test are asked for, "
            f"but of {left:,} that are left, {held_out:,} could be held out and {trained:,} "
            "trained on; ask for fewer"
        )
