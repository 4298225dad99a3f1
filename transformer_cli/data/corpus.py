"""Read and check parallel text, in which line n of one side translates line n of the other."""

import hashlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from transformer_cli.base.errors import CorpusError
from transformer_cli.base.locations import versions
from transformer_cli.base.text_files import open_text
from transformer_cli.base.workers import SerialExecutor
from transformer_cli.text.lines import has_letters, is_blank, stream_lines
from transformer_cli.text.protocol import StreamedLines

T = TypeVar("T")
Pairs = Sequence[tuple[str, str]]

BLOCK_PAIRS = 1 << 14
"""Number of neighbouring pairs in a block, which one task processes and hashes as a whole."""
BATCH_PAIRS = 512
"""Number of pairs in a list that ``in_batches`` yields; a power of two."""
MANY = 0.2
"""The fraction of pairs above which ``TextStats.letterless`` or ``copied`` is True."""
MIN_PAIRS_FOR_WORKERS = 50_000
"""Minimum number of pairs for which it is worth starting processes, which takes a second."""
_BLOCKS_AHEAD = 32
"""Maximum number of blocks sent to worker processes at a time; each has a few MB of text."""

_BATCH_CHARACTERS = 1 << 22
_BLOCK_CHARACTERS = 1 << 24  # makes blocks of very long lines fit into memory


class PairSource(ABC):
    """Parallel text that can be read several times."""

    @abstractmethod
    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield each pair of lines, in order, blank ones included."""

    @abstractmethod
    def source_sha256(self) -> str:
        """Return the SHA-256 of all pairs, in hexadecimal."""

    def mtime_key(self) -> str | None:
        """Return a value that changes when the files do, without reading them; None if unknown."""
        return None

    @property
    def parts(self) -> dict[str, "PairSource"]:
        """The split 'train' and any texts that extensions add to it, keyed by name."""
        return {"train": self}

    def blocks(self) -> Iterator[Pairs]:
        """Yield the text in blocks of neighbouring pairs that are small enough for one task."""
        return in_batches(self.pairs(), BLOCK_PAIRS, _BLOCK_CHARACTERS)


@dataclass(frozen=True)
class ParallelText(PairSource):
    """Parallel text as lists of lines, without line ends: ``tgt[i]`` translates ``src[i]``."""

    src: list[str]
    tgt: list[str]

    def __len__(self) -> int:
        return len(self.src)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield each pair of lines, in order."""
        return zip(self.src, self.tgt, strict=True)

    def source_sha256(self) -> str:
        """Return the SHA-256 of all pairs, in hexadecimal; see ``hash_pairs``."""
        return hash_pairs(list(self.pairs()))


@dataclass(frozen=True)
class ParallelFiles(PairSource):
    """Parallel text in two files, compressed or not, which are read again for each use."""

    src: Path
    tgt: Path
    once: bool = field(default=False, compare=False, kw_only=True)
    """Whether to read the files only once, so pipes and devices are allowed; see ``open_text``."""

    @property
    def paths(self) -> tuple[Path, Path]:
        """The paths of the source file and the target file."""
        return self.src, self.tgt

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield each pair of lines, in order.

        Raises:
            CorpusError: a side cannot be read; or, after the last pair, the sides have different
                numbers of lines, or none.
        """
        src_lines, tgt_lines = (stream_lines(path, self.once) for path in (self.src, self.tgt))
        count = src_rest = 0
        for src in src_lines:
            tgt = next(tgt_lines, None)
            if tgt is None:
                src_rest = 1 + sum(1 for _ in src_lines)
                break
            count += 1
            yield src, tgt
        tgt_rest = sum(1 for _ in tgt_lines)
        if src_rest or tgt_rest:
            raise CorpusError(
                f"{self.src} has {count + src_rest} lines but {self.tgt} has {count + tgt_rest}; "
                "line n of one must translate line n of the other, so align the files"
            )
        if not count:
            raise CorpusError(
                f"{self.src} and {self.tgt} are empty; give files with at least one line"
            )

    def source_sha256(self) -> str:
        """Return the SHA-256 of both sides' decompressed bytes; see ``hash_files``."""
        return hash_files(self.paths)

    def mtime_key(self) -> str | None:
        """Return a string that changes when a file does; see ``mtime_key_of``."""
        return mtime_key_of(self.paths)

    def read(self) -> ParallelText:
        """Read all pairs into memory; raise the same errors as ``pairs``."""
        pairs = list(self.pairs())
        return ParallelText([src for src, _ in pairs], [tgt for _, tgt in pairs])


# --- pairs with text on both sides ---------------------------------------------------------------


def without_blank_pairs(text: ParallelText) -> tuple[ParallelText, int]:
    """Return the pairs with text on both sides, and the number of other pairs."""
    kept = list(keep_full(text.pairs()))
    return ParallelText([src for src, _ in kept], [tgt for _, tgt in kept]), len(text) - len(kept)


def in_batches(
    pairs: Iterable[tuple[str, str]],
    size: int = BATCH_PAIRS,
    max_characters: int = _BATCH_CHARACTERS,
) -> Iterator[list[tuple[str, str]]]:
    """Yield lists of at most ``size`` pairs, to process together; long lines make lists shorter."""
    batch: list[tuple[str, str]] = []
    characters = 0
    for pair in pairs:
        batch.append(pair)
        characters += len(pair[0]) + len(pair[1])
        if len(batch) == size or characters > max_characters:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


# --- the training text: checked once, block by block, and read again whenever it is needed --------


class BlockStats(NamedTuple):
    """Statistics of a block, a list of at most ``BLOCK_PAIRS`` pairs."""

    full: int
    """Number of pairs with text on both sides, called full pairs here."""
    blank: int
    """Number of other pairs, which have a blank side."""
    sha256: str
    """SHA-256 of the full pairs."""
    letterless: int
    """Number of full pairs with no letters in the source."""
    copied: int
    """Number of full pairs with equal sides, not counting those without letters."""


@dataclass(frozen=True)
class TextStats:
    """Statistics of a whole text; store.json has those of the training text."""

    text_sha256: str
    """SHA-256 of the concatenated SHA-256 of all blocks; see ``hash_text``."""
    pairs: int
    """Number of pairs with text on both sides."""
    blank: int
    """Number of pairs with a blank side."""
    mtime_key: str | None = None
    """The text's ``PairSource.mtime_key`` from before it was read."""
    parts: list[int] = field(default_factory=list)
    """How many of ``pairs`` each of the ``PairSource.parts`` has; empty if there is only one."""
    letterless: bool = False
    """Whether many source lines have no letters, so that a model must translate such lines."""
    copied: bool = False
    """Whether many target lines equal their source lines, so that copying is often correct."""

    @classmethod
    def of(cls, parts: Sequence[Sequence[BlockStats]], mtime_key: str | None) -> "TextStats":
        """Return the statistics of all blocks together; ``parts`` has the blocks of each part."""
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


@dataclass(frozen=True)
class StreamedText:
    """The pairs of ``source`` with text on both sides, checked once and read again for each use."""

    source: PairSource
    stats: TextStats

    @classmethod
    def of(
        cls,
        source: PairSource,
        known: TextStats | None = None,
        executor: Executor | None = None,
    ) -> "StreamedText":
        """Check all of ``source``, or reuse its statistics ``known`` if it has not changed since.

        Raise the same errors as ``source.pairs``.
        """
        mtime_key = source.mtime_key()
        if known is not None and mtime_key is not None and known.mtime_key == mtime_key:
            return cls(source, known)
        executor = executor or SerialExecutor()
        parts = [list(_check_source(part, executor)) for part in source.parts.values()]
        return cls(source, TextStats.of(parts, mtime_key))

    def __len__(self) -> int:
        return self.stats.pairs

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the pairs; raise CorpusError if their number has changed since the check."""
        count = 0
        for pair in keep_full(self.source.pairs()):
            count += 1
            yield pair
        if count != len(self):
            raise CorpusError(
                f"split 'train': it had {len(self)} pairs and now has {count}; another program is "
                "changing the files, so start again when it is done"
            )

    @property
    def src(self) -> StreamedLines:
        """The source lines, read again for each iteration."""
        return StreamedLines(lambda: (src for src, _ in self.pairs()), len(self))

    @property
    def tgt(self) -> StreamedLines:
        """The target lines, read again for each iteration."""
        return StreamedLines(lambda: (tgt for _, tgt in self.pairs()), len(self))


def keep_full(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the pairs that have text on both sides."""
    return ((src, tgt) for src, tgt in pairs if not (is_blank(src) or is_blank(tgt)))


def map_blocks(
    executor: Executor, function: Callable[..., T], blocks: Iterable[Pairs], *more: object
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


def _check_source(source: PairSource, executor: Executor) -> Iterator[BlockStats]:
    blocks = source.blocks()
    first = list(islice(blocks, -(-MIN_PAIRS_FOR_WORKERS // BLOCK_PAIRS)))
    if sum(map(len, first)) < MIN_PAIRS_FOR_WORKERS:
        executor = SerialExecutor()
    return map_blocks(executor, check_pairs, chain(first, blocks))


def check_pairs(block: Pairs) -> BlockStats:
    """Return the statistics of a block of neighbouring pairs."""
    full = list(keep_full(block))
    return BlockStats(
        full=len(full),
        blank=len(block) - len(full),
        sha256=hash_pairs(full),
        letterless=sum(not has_letters(src) for src, _ in full),
        copied=sum(src == tgt and has_letters(src) for src, tgt in full),
    )


# --- checksums and versions ----------------------------------------------------------------------


def hash_files(paths: Iterable[Path]) -> str:
    """Return a SHA-256 of the decompressed files; raise CorpusError if one cannot be read."""
    return _combine(_hash_file(path) for path in paths)


def _hash_file(path: Path) -> "hashlib._Hash":
    with open_text(path) as file:
        return hashlib.file_digest(file, "sha256")


def hash_pairs(pairs: Pairs) -> str:
    """Return the SHA-256 of the lines of both sides, in hexadecimal."""
    sides = ("".join([f"{pair[side]}\n" for pair in pairs]) for side in (0, 1))
    return _combine(hashlib.sha256(side.encode()) for side in sides)


def _combine(sides: "Iterable[hashlib._Hash]") -> str:
    """Return a SHA-256 of both sides' digests; it changes if text moves from one to the other."""
    return hashlib.sha256(b"".join(side.digest() for side in sides)).hexdigest()


def hash_text(blocks: Iterable[str]) -> str:
    """Return the SHA-256 of a text, given the SHA-256 of its blocks."""
    return hashlib.sha256("".join(blocks).encode()).hexdigest()


def mtime_key_of(paths: Iterable[Path]) -> str | None:
    """Return a string that changes when the files do; None if one is missing or was just changed.

    Raises:
        CorpusError: the version of a remote file cannot be read.
    """
    keys = versions(list(paths))
    return None if None in keys else ", ".join(map(str, keys))
