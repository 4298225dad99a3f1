"""The training text: checked once, by shards of its lines, and read again as often as it takes."""

import codecs
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import accumulate, chain, islice, pairwise, repeat, zip_longest
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import uuid4

import numpy as np

from transformer_cli.base.artifact import combine_hashes
from transformer_cli.base.compression import is_plain
from transformer_cli.base.errors import CorpusError
from transformer_cli.base.locations import is_local, sizes
from transformer_cli.base.workers import SerialExecutor
from transformer_cli.data.corpus import (
    ConcatenatedSources,
    PairRange,
    PairSource,
    ParallelFiles,
    ParallelText,
    cut_pairs,
    in_batches,
)
from transformer_cli.text.protocol import StreamedLines, draw_places
from transformer_cli.text.scripts import has_letters, is_blank

T = TypeVar("T")
AnyShard = TypeVar("AnyShard", bound=PairRange | PairSource)
Shard = PairRange | PairSource
"""What one task reads: a range of plain text, or a source that can only be read from its start."""

MANY = 0.2
"""Share of a text's pairs from which on they count as what a model has to learn."""
BLOCK_PAIRS = 1 << 14
"""Neighbouring pairs of a source that are hashed together; a range has some such blocks."""
MIN_PAIRS_FOR_WORKERS = 50_000
"""Pairs from which on workers are worth the second that it takes to start them."""
# So that a text has thousands of ranges, and not millions.
_BYTES_FOR_EACH_BLOCK_OF_A_RANGE = 1 << 33

CHANGED = (
    "split 'train': its files have changed while they were read; start again when nobody writes to "
    "them"
)


class BlockStats(NamedTuple):
    """Results of a pass over a block."""

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
    """Results of a pass over a whole text."""

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
    blocks: list[list[int]] = field(default_factory=list)
    """The same in the blocks of each file, or pair of files."""
    letterless: bool = False
    """Whether many sources have no letters, so that a model must translate such lines."""
    copied: bool = False
    """Whether many targets are their sources, so that copies are right."""

    @classmethod
    def of(
        cls, parts: Sequence[Sequence[Sequence[BlockStats]]], mtime_key: str | None
    ) -> "TextStats":
        """Sum up the blocks of each source's files."""
        files = list(chain.from_iterable(parts))
        blocks = list(chain.from_iterable(files))
        sums = "".join(block.sha256 for block in blocks)
        pairs = sum(block.full for block in blocks)
        return cls(
            hashlib.sha256(sums.encode()).hexdigest(),
            pairs=pairs,
            blank=sum(block.blank for block in blocks),
            mtime_key=mtime_key,
            parts=[sum(block.full for file in part for block in file) for part in parts]
            if len(parts) > 1
            else [],
            blocks=[[block.full for block in file] for file in files],
            letterless=sum(block.letterless for block in blocks) > MANY * pairs,
            copied=sum(block.copied for block in blocks) > MANY * pairs,
        )


class Look(Protocol):
    """Looks at the pairs of a shard, in a task; so it is small, and can be sent to another process.

    A copy looks at each shard.
    """

    def look(self, batch: Sequence[tuple[str, str]]) -> None:
        """Look at the next pairs, blank ones too."""


class TextCheck(Protocol):
    """Checks text in the pass that reads it anyway."""

    def begin(self, source: PairSource, shards: Sequence[Shard], executor: Executor) -> Look:
        """Return what looks at the shards of the next source."""

    def merge(self, look: Any, blocks: Sequence[BlockStats]) -> None:
        """Take what was seen in the next shard of that source."""


@dataclass(frozen=True)
class StreamedText:
    """The pairs of a source that have text on both sides, checked once and read on demand."""

    source: PairSource
    stats: TextStats
    _shards: Sequence[Sequence[Shard]] | None = field(default=None, compare=False, repr=False)
    """Of each file; None: a known text is cut where that is needed."""

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
        parts, all_shards = [], []
        for part in source.sources if isinstance(source, ConcatenatedSources) else (source,):
            files = cut_source(part)
            shards = list(chain.from_iterable(files))
            found = iter([*_check_shards(part, shards, executor or SerialExecutor(), checks)])
            parts.append([[stats for _ in file for stats in next(found)] for file in files])
            all_shards += files
        return cls(source, TextStats.of(parts, mtime_key), all_shards)

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

    def count_ranges(self, work: Path) -> list[tuple[PairRange, int]]:
        """Return ranges of the text, or of copies in ``work``, and how many pairs are in each.

        Only pairs with text on both sides count. Raises CorpusError if the text is another than it
        was, or cannot be read.
        """
        return self._count([_as_ranges(shards, work) for shards in self._cut()])

    def _cut(self) -> Sequence[Sequence[Shard]]:
        return cut_source(self.source) if self._shards is None else self._shards

    def _count(self, files: Sequence[Sequence[AnyShard]]) -> list[tuple[AnyShard, int]]:
        """Return each shard of all files with the number of its pairs with text on both sides."""
        counted: list[tuple[AnyShard, int]] = []
        for shards, blocks in zip_longest(files, self.stats.blocks, fillvalue=()):
            sizes = (_count_blocks(shard) or len(blocks) for shard in shards)
            ends = list(accumulate(sizes, initial=0))
            if ends[-1] != len(blocks):
                raise CorpusError(CHANGED)
            counts = (sum(blocks[first:end]) for first, end in pairwise(ends))
            counted += zip(shards, counts, strict=True)
        return counted

    def sample(self, size: int, executor: Executor) -> ParallelText:
        """Return ``size`` of the pairs, the same ones every time, all equally likely."""
        shards, counts = zip(*self._count(self._cut()), strict=True)
        places = draw_places(len(self), size)
        ends = np.cumsum(counts)
        own = np.split(places, np.searchsorted(places, ends[:-1]))
        shifted = (part - end + count for part, end, count in zip(own, ends, counts, strict=True))
        pairs = list(chain.from_iterable(map_shards(executor, _pick_pairs, shards, shifted)))
        return ParallelText([src for src, _ in pairs], [tgt for _, tgt in pairs])

    def check_unchanged(self, executor: Executor) -> None:
        """Raise CorpusError unless the text is still the one that was checked."""
        key = self.source.mtime_key()
        if key is None or key != self.stats.mtime_key:
            now = StreamedText.of(self.source, executor=executor)
            if now.stats.text_sha256 != self.stats.text_sha256:
                raise CorpusError(CHANGED)


def keep_full(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the pairs that have text on both sides."""
    return ((src, tgt) for src, tgt in pairs if not (is_blank(src) or is_blank(tgt)))


# --- shards --------------------------------------------------------------------------------------


def cut_source(source: PairSource) -> list[list[Shard]]:
    """Cut each file, or pair of files, into shards; CorpusError: plain text cannot be read."""
    if isinstance(source, ConcatenatedSources):
        return [shards for part in source.sources for shards in cut_source(part)]
    is_utf8 = isinstance(source, ParallelFiles) and source.encoding is None
    if isinstance(source, ParallelFiles) and is_utf8 and all(map(is_plain, source.paths)):
        return [[*_cut_files(source, Path())]]
    return [[source]]


def _as_ranges(shards: Sequence[Shard], work: Path) -> list[PairRange]:
    """Return the shards of a file themselves if they are ranges, or those of a copy."""
    if isinstance(source := shards[0], PairRange):
        return [shard for shard in shards if isinstance(shard, PairRange)]
    if not isinstance(source, ParallelFiles) or source.encoding is not None:
        pairs, source = source.pairs(), ParallelFiles(work / uuid4().hex, work / uuid4().hex)
        with source.src.open("wb") as src_file, source.tgt.open("wb") as tgt_file:
            for file in (src_file, tgt_file):
                file.write(codecs.BOM_UTF8)  # or one of the text's own would be dropped
            for src, tgt in pairs:
                src_file.write(f"{src}\n".encode())
                tgt_file.write(f"{tgt}\n".encode())
    return _cut_files(source, work)


def _cut_files(files: ParallelFiles, work: Path) -> list[PairRange]:
    size = sizes([files.src])[0] if is_local(files.src) else 0
    return cut_pairs(files, BLOCK_PAIRS * (1 + size // _BYTES_FOR_EACH_BLOCK_OF_A_RANGE), work)


def _count_blocks(shard: Shard) -> int | None:
    """Return the number of a range's blocks."""
    return -(-len(shard) // BLOCK_PAIRS) if isinstance(shard, PairRange) else None


def pick_executor(executor: Executor, shards: Iterable[Shard]) -> Executor:
    """Return the executor, or this process' for what it has to read, and for little text."""
    sizes = [len(shard) if isinstance(shard, PairRange) else None for shard in shards]
    pairs = sum(size or 0 for size in sizes)
    return SerialExecutor() if None in sizes or pairs < MIN_PAIRS_FOR_WORKERS else executor


def map_shards(
    executor: Executor, function: Callable[..., T], shards: Sequence[Shard], *more: Iterable[object]
) -> Iterator[T]:
    """Yield the result of a call for each shard, in order, given also the next of each of ``more``.

    What is no range is read in this process, as it may be anything.
    """
    calls = list(zip(shards, *more, strict=False))
    ranges = [call for call in calls if isinstance(call[0], PairRange)]
    executor = pick_executor(executor, [call[0] for call in ranges])
    results = iter(executor.map(function, *zip(*ranges, strict=True)) if ranges else ())
    for call in calls:
        yield next(results) if isinstance(call[0], PairRange) else function(*call)


# --- what is done with a shard -------------------------------------------------------------------


def _check_shards(
    source: PairSource,
    shards: Sequence[Shard],
    executor: Executor,
    checks: Sequence[TextCheck],
) -> Iterator[list[BlockStats]]:
    """Yield what is in the blocks of each of a source's shards."""
    looks = [check.begin(source, shards, executor) for check in checks]
    for blocks, seen in map_shards(
        executor, _check_shard, shards, repeat(BLOCK_PAIRS), repeat(looks)
    ):
        for check, look in zip(checks, seen, strict=True):
            check.merge(look, blocks)
        yield blocks


def _check_shard(
    shard: Shard, block_pairs: int, looks: Sequence[Look]
) -> tuple[list[BlockStats], Sequence[Look]]:
    looks = deepcopy(looks)  # of which this process may have more shards to read
    return check_pairs(shard.pairs(), block_pairs, looks), looks


def check_pairs(
    pairs: Iterator[tuple[str, str]], block_pairs: int, looks: Sequence[Look] = ()
) -> list[BlockStats]:
    """Go through the pairs of a shard, in blocks."""
    blocks = []
    for first in pairs:
        sides = src_side, tgt_side = hashlib.sha256(), hashlib.sha256()
        full = total = letterless = copied = 0
        for batch in in_batches(chain((first,), islice(pairs, block_pairs - 1))):
            for each in looks:
                each.look(batch)
            kept = list(keep_full(batch))
            total += len(batch)
            full += len(kept)
            letterless += sum(not has_letters(src) for src, _ in kept)
            copied += sum(src == tgt and has_letters(src) for src, tgt in kept)
            src_side.update("".join([f"{src}\n" for src, _ in kept]).encode())
            tgt_side.update("".join([f"{tgt}\n" for _, tgt in kept]).encode())
        digest = combine_hashes(sides)
        blocks.append(BlockStats(full, total - full, digest, letterless, copied))
    return blocks


def _pick_pairs(shard: Shard, places: np.ndarray) -> list[tuple[str, str]]:
    """Return the pairs at these places, in order, among those with text on both sides."""
    full = keep_full(shard.pairs())
    steps = (np.diff(places, prepend=-1) - 1).tolist()
    pairs = [pair for step in steps if (pair := next(islice(full, step, None), None))]
    if len(pairs) < len(places):
        raise CorpusError(CHANGED)
    return pairs
