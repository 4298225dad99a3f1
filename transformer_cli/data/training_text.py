"""The training text: checked once, block by block, and read again as often as it takes."""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, NamedTuple, Protocol, TypeVar

from transformer_cli.base.artifact import combine_hashes
from transformer_cli.base.errors import CorpusError
from transformer_cli.base.workers import SerialExecutor
from transformer_cli.data.corpus import (
    BLOCK_PAIRS,
    ConcatenatedSources,
    PairSource,
    ParallelText,
    in_batches,
)
from transformer_cli.text.lines import has_letters, is_blank
from transformer_cli.text.protocol import StreamedLines, sample_lines

T = TypeVar("T")

MANY = 0.2
"""Share of a text's pairs from which on they count as what a model has to learn."""
MIN_PAIRS_FOR_WORKERS = 50_000
"""Pairs from which on workers are worth the second that it takes to start them."""
_BLOCKS_AHEAD = 32
"""Blocks that workers have at once, each of some MB of text."""


class BlockStats(NamedTuple):
    """What was found in a block, or in several."""

    full: int
    """Pairs with text on both sides."""
    blank: int
    """The others."""
    sha256: str
    """Of the pairs with text on both sides."""
    letterless: int
    """Of these, sources without letters."""
    copied: int
    """Of these, targets with letters that are their sources."""


@dataclass(frozen=True)
class TextStats:
    """What was found in a whole text."""

    text_sha256: str
    """Of the SHA-256 of its blocks."""
    pairs: int
    """Pairs with text on both sides."""
    blank: int
    """Pairs of which a side is blank."""
    mtime_key: str | None = None
    """The source's, if it was known before the source was read."""
    parts: list[int] = field(default_factory=list)
    """The number of pairs with text on both sides in each of several sources."""
    letterless: bool = False
    """Whether many sources have no letters, so that a model must translate such lines."""
    copied: bool = False
    """Whether many targets are their sources, so that copies are right."""

    @classmethod
    def of(cls, parts: Sequence[Sequence[BlockStats]], mtime_key: str | None) -> "TextStats":
        """Sum up the blocks of each source."""
        blocks = [block for part in parts for block in part]
        pairs = sum(block.full for block in blocks)
        return cls(
            hash_text(block.sha256 for block in blocks),
            pairs=pairs,
            blank=sum(block.blank for block in blocks),
            mtime_key=mtime_key,
            parts=[sum(block.full for block in part) for part in parts] if len(parts) > 1 else [],
            letterless=sum(block.letterless for block in blocks) > MANY * pairs,
            copied=sum(block.copied for block in blocks) > MANY * pairs,
        )


class Look(Protocol):
    """Looks at the pairs of a block, in a task; so it is small, and can be sent to another process.

    A copy looks at each block.
    """

    def look(self, batch: Sequence[tuple[str, str]]) -> None:
        """Look at the next pairs, blank ones too."""


class TextCheck(Protocol):
    """Checks text in the pass that reads it anyway."""

    def begin(self, source: PairSource, executor: Executor) -> Look:
        """Return what looks at the blocks of the next source."""

    def merge(self, look: Any, stats: BlockStats) -> None:
        """Take what was seen in the next block of that source."""


@dataclass(frozen=True)
class StreamedText:
    """The pairs of a source that have text on both sides, checked once and read on demand."""

    source: PairSource
    stats: TextStats

    @classmethod
    def of(
        cls,
        source: PairSource,
        known: TextStats | None = None,
        executor: Executor | None = None,
        checks: Sequence[TextCheck] = (),
    ) -> "StreamedText":
        """Read ``source`` from one end to the other, unless it is ``known``, and have it checked.

        Raises what ``source.pairs`` and the checks do.
        """
        mtime_key = source.mtime_key()
        if known is not None and mtime_key is not None and known.mtime_key == mtime_key:
            return cls(source, known)
        executor = executor or SerialExecutor()
        sources = source.sources if isinstance(source, ConcatenatedSources) else (source,)
        parts = [list(_check_source(part, executor, checks)) for part in sources]
        return cls(source, TextStats.of(parts, mtime_key))

    def __len__(self) -> int:
        return self.stats.pairs

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the pairs; raise CorpusError if there are more or fewer of them than there were."""
        count = 0
        for pair in keep_full(self.source.pairs()):
            count += 1
            yield pair
        if count != len(self):
            raise CorpusError(
                f"split 'train': it had {len(self)} pairs and now has {count}; somebody changes "
                "the files, so start again when they are done"
            )

    @property
    def src(self) -> StreamedLines:
        """Source side."""
        return StreamedLines(lambda: (src for src, _ in self.pairs()), len(self))

    @property
    def tgt(self) -> StreamedLines:
        """Target side."""
        return StreamedLines(lambda: (tgt for _, tgt in self.pairs()), len(self))

    def sample(self, size: int) -> ParallelText:
        """Return ``size`` of the pairs, the same ones every time, all equally likely."""
        pairs = list(sample_lines(self.pairs(), len(self), size))
        return ParallelText([src for src, _ in pairs], [tgt for _, tgt in pairs])


def keep_full(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the pairs that have text on both sides."""
    return ((src, tgt) for src, tgt in pairs if not (is_blank(src) or is_blank(tgt)))


def map_blocks(
    executor: Executor, function: Callable[..., T], blocks: Iterable[ParallelText], *more: object
) -> Iterator[T]:
    """Yield the result of ``function(block, *more)`` for each block, in order."""
    pending: deque[Future[T]] = deque()
    try:
        for block in blocks:
            pending.append(executor.submit(function, block, *more))
            if isinstance(executor, SerialExecutor) or len(pending) > _BLOCKS_AHEAD:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()


def _check_source(
    source: PairSource, executor: Executor, checks: Sequence[TextCheck]
) -> Iterator[BlockStats]:
    blocks = source.blocks()
    first = list(islice(blocks, -(-MIN_PAIRS_FOR_WORKERS // BLOCK_PAIRS)))
    if sum(map(len, first)) < MIN_PAIRS_FOR_WORKERS:
        executor = SerialExecutor()
    looks = [check.begin(source, executor) for check in checks]
    for stats, seen in map_blocks(executor, _check_block, chain(first, blocks), looks):
        for check, look in zip(checks, seen, strict=True):
            check.merge(look, stats)
        yield stats


def _check_block(block: ParallelText, looks: Sequence[Look]) -> tuple[BlockStats, Sequence[Look]]:
    looks = deepcopy(looks)  # this process may have more blocks to read
    return check_pairs(block.pairs(), looks), looks


def check_pairs(pairs: Iterable[tuple[str, str]], looks: Sequence[Look] = ()) -> BlockStats:
    """Go through the pairs of a block."""
    sums = PairSums()
    full = total = letterless = copied = 0
    for batch in in_batches(pairs):
        for each in looks:
            each.look(batch)
        kept = list(keep_full(batch))
        total += len(batch)
        full += len(kept)
        letterless += sum(not has_letters(src) for src, _ in kept)
        copied += sum(src == tgt and has_letters(src) for src, tgt in kept)
        sums.update(kept)
    return BlockStats(full, total - full, sums.sha256(), letterless, copied)


class PairSums:
    """The SHA-256 of a block's pairs, which is the same however the block is stored."""

    def __init__(self) -> None:
        self._sides = hashlib.sha256(), hashlib.sha256()

    def update(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Add the next pairs."""
        for number, side in enumerate(self._sides):
            side.update("".join([f"{pair[number]}\n" for pair in pairs]).encode())

    def sha256(self) -> str:
        """Return the SHA-256 of all pairs, in hexadecimal."""
        return combine_hashes(self._sides)


def hash_text(blocks: Iterable[str]) -> str:
    """Return the SHA-256 of a text, given those of its blocks."""
    return hashlib.sha256("".join(blocks).encode()).hexdigest()
