"""The training text as token ids on disk: written, read, and cut into shards to train on.

A store is an artifact. Its pairs are in pages of some neighbours each, and its files hold, as
little-endian numbers, page after page:

- ``ids``: the tokens of the page's sources, then those of its targets;
- ``pages``: a CRC-32 of what follows, one of the page's ids, where these start, and how many tokens
  each of the sources and then of the targets has;
- ``lines``: digests of the lines, by which a model's users ask whether it was trained on theirs.

Tasks encode parts of the text, which are then put together. A part has a store's files for some
neighbouring pages, as if its ids were the first.
"""

import shutil
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, chain, islice, pairwise, repeat
from pathlib import Path
from struct import Struct
from typing import BinaryIO, NamedTuple
from uuid import uuid4

import numpy as np

from transformer_cli.base.artifact import Artifact, Record
from transformer_cli.base.errors import CorpusError, RunError, TokenizerError, TransformerCliError
from transformer_cli.base.locations import open_regular
from transformer_cli.base.workers import SerialExecutor
from transformer_cli.data.corpus import PairRange, digest_lines, fold_side
from transformer_cli.data.token_arrays import (
    EncodedText,
    Lengths,
    Mix,
    Sampler,
    SrcTgt,
    TokenArray,
    count_batches,
    encode_pairs,
)
from transformer_cli.data.training_text import (
    CHANGED,
    StreamedText,
    TextStats,
    keep_full,
)
from transformer_cli.text.protocol import ProgressBar, StreamedLines, Tokenizers
from transformer_cli.text.tokenizer import load_tokenizers

PAGE_PAIRS = 256
"""Neighbouring pairs that are read together."""
SHARD_PAIRS = 131_072
"""Maximum of pairs of a shard: some 15 MB of captions, and enough to bucket by length."""
IDS, PAGES, LINES = "ids", "pages", "lines"
ID = np.dtype("<i4")
_HEADER = Struct("<IIq")
"""Of a page: both sums, and where its ids start."""
_COPIED_BYTES = 1 << 20
_DIGEST_BYTES = 16
"""Of a pair in ``lines``: its source's digest and its target's."""


@dataclass(frozen=True)
class BatchCounts:
    """The numbers of pairs and batches of an epoch."""

    settings: dict[str, str]
    """By which they were counted."""
    pairs: int
    batches: list[int]
    """Of each shard."""


class StoreRecord(Record):
    """Content of store.json."""

    stats: TextStats
    page_pairs: int
    """Pairs of every page but the last, which may have fewer."""
    src_tokens: int
    """Tokens of all sources, without BOS and EOS."""
    tgt_tokens: int
    counts: BatchCounts | None = None
    """Noted so that later sessions read no lengths before they start."""


def store_artifact(directory: Path) -> Artifact[StoreRecord]:
    """Return the artifact that a store is."""
    return Artifact(directory, StoreRecord, "store.json")


def page_entry(start: int, lengths: bytes, ids: bytes) -> bytes:
    """Return a page's entry in ``pages``."""
    return _seal(zlib.crc32(ids), start, lengths)


def move_pages(entries: bytes, page_pairs: int, tokens: int) -> bytes:
    """Return the entries of pages whose ids go behind so many others."""
    size = _HEADER.size + 2 * page_pairs * ID.itemsize
    moved = []
    for first in range(0, len(entries), size):
        _, ids_crc, start = _HEADER.unpack_from(entries, first)
        moved.append(_seal(ids_crc, start + tokens, entries[first + _HEADER.size : first + size]))
    return b"".join(moved)


def _seal(ids_crc: int, start: int, lengths: bytes) -> bytes:
    checked = _HEADER.pack(0, ids_crc, start)[4:] + lengths
    return zlib.crc32(checked).to_bytes(4, "little") + checked


# --- reading -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EncodedStore:
    """A store, none of which is kept in memory.

    Its methods raise RunError where the files are missing or damaged.
    """

    # Files are read, not mapped: where a mapped one is cut off, reading it kills the process, and
    # what was read of it counts as the process' memory.

    directory: Path
    record: StoreRecord

    def __len__(self) -> int:
        return self.record.stats.pairs

    @property
    def num_pages(self) -> int:
        """Number of pages."""
        return -(-len(self) // self.record.page_pairs)

    def read_pages(self, numbers: Iterable[int]) -> Iterator[EncodedText]:
        """Yield the pairs of each of these pages."""
        with self._open(IDS) as file:
            for number, start, ids_crc, lengths in self._read_headers(numbers):
                src_tokens, tgt_tokens = (int(side.sum()) for side in lengths)
                file.seek(start * ID.itemsize)
                data = file.read((src_tokens + tgt_tokens) * ID.itemsize)
                # Times tell of what was written to a file, not of what its disk did to it.
                if zlib.crc32(data) != ids_crc:
                    raise self._damage(IDS, number)
                ids = np.frombuffer(data, ID)
                yield EncodedText(
                    TokenArray.from_lengths(ids[:src_tokens], lengths.src),
                    TokenArray.from_lengths(ids[src_tokens:], lengths.tgt),
                )

    def read_lengths(self, numbers: Iterable[int] | None = None) -> Iterator[Lengths]:
        """Yield the lengths of the pairs of each of these pages, or of all; no ids are read."""
        numbers = range(self.num_pages) if numbers is None else numbers
        return (lengths for *_, lengths in self._read_headers(numbers))

    def _read_headers(self, numbers: Iterable[int]) -> Iterator[tuple[int, int, int, Lengths]]:
        """Yield number, start, CRC-32 and lengths of each of these pages."""
        page_pairs = self.record.page_pairs
        with self._open(PAGES) as file:
            for number in numbers:
                pairs = min(page_pairs, len(self) - number * page_pairs)
                file.seek(number * (_HEADER.size + 2 * page_pairs * ID.itemsize))
                entry = file.read(_HEADER.size + 2 * pairs * ID.itemsize)
                if len(entry) < _HEADER.size:
                    raise self._damage(PAGES, number)
                crc, ids_crc, start = _HEADER.unpack_from(entry)
                if zlib.crc32(entry[4:]) != crc:
                    raise self._damage(PAGES, number)
                lengths = np.frombuffer(entry, ID, offset=_HEADER.size).astype(np.int64)
                yield number, start, ids_crc, Lengths(lengths[:pairs], lengths[pairs:])

    def count_lengths(self) -> SrcTgt[np.ndarray]:
        """Return histograms: how many sources, and how many targets, have 0, 1, 2, … tokens."""
        counts = [np.zeros(1, np.int64), np.zeros(1, np.int64)]
        for lengths in self.read_lengths():
            for side, values in enumerate(lengths):
                added = np.bincount(values, minlength=len(counts[side]))
                added[: len(counts[side])] += counts[side]
                counts[side] = added
        return SrcTgt(*counts)

    @contextmanager
    def _open(self, name: str) -> Iterator[BinaryIO]:
        path = self.directory / name
        try:
            with open_regular(path) as file:
                yield file
        except OSError as error:
            raise RunError(
                f"{path}: cannot be read ({error.strerror}); the same command makes it anew"
            ) from error

    def _damage(self, name: str, number: int) -> RunError:
        return RunError(
            f"{self.directory / name}: page {number} is damaged: its checksum does not fit, or "
            f"bytes are missing; delete {self.directory}, and the same command makes it anew"
        )


def open_store(
    directory: Path, text_sha256: str, tokenizer: str, is_verified: bool = False
) -> EncodedStore | None:
    """Return the store in ``directory``; None: it is damaged, or of another text or tokenizer.

    Files of another time than store.json, as copies have, are read and verified, unless another
    process has just done so (``is_verified``): machines may see different times of shared files.
    """
    artifact = store_artifact(directory)
    record = artifact.read()
    if record is None or record.made_of != {"text": text_sha256, "tokenizer": tokenizer}:
        return None
    if record.files.keys() != {IDS, PAGES, LINES}:
        return None
    if is_verified:
        files = [(directory / name, file.size) for name, file in record.files.items()]
        is_whole = all(path.is_file() and path.stat().st_size == size for path, size in files)
    else:
        is_whole = artifact.find_damage(record) is None
    return EncodedStore(directory, record) if is_whole else None


def read_stats(directory: Path) -> TextStats | None:
    """Return the statistics of the text in a store, or None if there is no store."""
    record = store_artifact(directory).read()
    return None if record is None else record.stats


def read_lines(directory: Path, text_sha256: str) -> Iterator[np.ndarray] | None:
    """Return the digests of the text's lines, both of each pair; None: they are not there."""
    record = store_artifact(directory).read()
    path = directory / LINES
    if record is None or record.stats.text_sha256 != text_sha256 or not path.is_file():
        return None

    def read() -> Iterator[np.ndarray]:
        with open_regular(path) as file:
            while chunk := file.read(_DIGEST_BYTES << 17):
                yield np.frombuffer(chunk, "<u8").reshape(-1, 2)

    is_whole = path.stat().st_size == record.stats.pairs * _DIGEST_BYTES
    return read() if is_whole else None


# --- writing --------------------------------------------------------------------------------------


Load = Callable[[], Tokenizers]
"""Returns the tokenizers, where they are needed."""


class PartPlan(NamedTuple):
    """Some pairs with text on both sides: those of these ranges, without the first ones."""

    ranges: list[PairRange]
    skipped: int
    pairs: int


class EncodedPart(NamedTuple):
    """A part that is encoded."""

    directory: Path
    pairs: int
    src_tokens: int
    tgt_tokens: int


@lru_cache(maxsize=1)
def load_once(directory: Path, fingerprint: str) -> Tokenizers:
    """Load the tokenizers of a directory, unless the last ones were of this fingerprint."""
    return load_tokenizers(directory)


def write_store(
    directory: Path,
    text: StreamedText,
    load: Load,
    tokenizer: str,
    progress: ProgressBar,
    executor: Executor | None = None,
    page_pairs: int = PAGE_PAIRS,
) -> EncodedStore:
    """Encode ``text`` into ``directory``, which must not exist yet.

    ``load`` is called by tasks of ``executor``; ``tokenizer`` is the tokenizers' fingerprint.

    Raises:
        CorpusError: the text has changed since it was checked.
        TokenizerError: it cannot be encoded.
        OSError: the files cannot be written; nothing is left of them.
    """
    executor = executor or SerialExecutor()

    def write(made: Path) -> StoreRecord:
        work = made.absolute() / "parts"
        work.mkdir()
        plans = list(_plan_parts(text, page_pairs, work))
        same = (repeat(load), repeat(page_pairs), repeat(work))
        parts = executor.map(_encode_part, plans, *same)
        shown = _show(parts, len(text), progress)
        src_tokens, tgt_tokens = _join_parts(made, shown, page_pairs)
        # A worker that was given up may still write there.
        shutil.rmtree(work, ignore_errors=True)
        mtime_key = text.source.mtime_key()
        text.check_unchanged(executor)
        return StoreRecord(
            made_of={"text": text.stats.text_sha256, "tokenizer": tokenizer},
            stats=replace(text.stats, mtime_key=mtime_key),
            page_pairs=page_pairs,
            src_tokens=src_tokens,
            tgt_tokens=tgt_tokens,
        )

    return EncodedStore(directory, store_artifact(directory).make(write))


def _plan_parts(text: StreamedText, page_pairs: int, work: Path) -> Iterator[PartPlan]:
    """Yield a part for each range: the pages that begin there, whose last may end in the next."""
    ranges, counts = zip(*text.count_ranges(work), strict=True)
    ends = list(accumulate(counts, initial=0))
    last = 0
    for number, bounds in enumerate(pairwise(ends)):
        pages = (-(-bound // page_pairs) for bound in bounds)
        first, after = (min(page * page_pairs, len(text)) for page in pages)
        while ends[last] < after:
            last += 1
        if first < after:
            yield PartPlan(list(ranges[number:last]), first - bounds[0], after - first)


def _show(parts: Iterable[EncodedPart], pairs: int, progress: ProgressBar) -> Iterator[EncodedPart]:
    """Yield the parts, and show how many of the pairs they have."""
    bar = iter(progress(StreamedLines(lambda: repeat("", pairs), pairs), "encoding"))
    for part in parts:
        yield part
        deque(islice(bar, part.pairs), maxlen=0)
    next(bar, None)  # which ends it


def _join_parts(directory: Path, parts: Iterable[EncodedPart], page_pairs: int) -> tuple[int, int]:
    """Write the files of a store; return how many tokens the sources and the targets have."""
    src_tokens = tgt_tokens = 0
    with _open_files(directory) as (ids, pages, lines):
        for part in parts:
            with open_regular(part.directory / PAGES) as source:
                pages.write(move_pages(source.read(), page_pairs, src_tokens + tgt_tokens))
            for name, file in ((IDS, ids), (LINES, lines)):
                with open_regular(part.directory / name) as source:
                    shutil.copyfileobj(source, file, _COPIED_BYTES)
            shutil.rmtree(part.directory)
            src_tokens += part.src_tokens
            tgt_tokens += part.tgt_tokens
    return src_tokens, tgt_tokens


@contextmanager
def _open_files(directory: Path) -> Iterator[list[BinaryIO]]:
    with ExitStack() as stack:
        paths = (directory / name for name in (IDS, PAGES, LINES))
        yield [stack.enter_context(path.open("xb")) for path in paths]


def _encode_part(plan: PartPlan, load: Load, page_pairs: int, work: Path) -> EncodedPart:
    """Encode a part into a directory of a new name, as two workers may do so at once."""
    directory = work / uuid4().hex
    try:
        tokenizers = load()
        directory.mkdir()
        part = _write_part(directory, plan, tokenizers, page_pairs)
    except (TransformerCliError, OSError):
        raise
    except Exception as error:  # others may not be such as can be sent
        reason = f"{type(error).__name__}: {error}"
        raise TokenizerError(f"the training text cannot be encoded ({reason})") from None
    if part.pairs < plan.pairs:
        raise CorpusError(CHANGED)
    return part


def _write_part(
    directory: Path, plan: PartPlan, tokenizers: Tokenizers, page_pairs: int
) -> EncodedPart:
    """Write the files of a part, a page at a time."""
    count = src_tokens = tgt_tokens = 0
    full = keep_full(chain.from_iterable(each.pairs() for each in plan.ranges))
    own = islice(full, plan.skipped, plan.skipped + plan.pairs)
    with _open_files(directory) as (ids, pages, lines):
        while pairs := list(islice(own, page_pairs)):
            lines.write(digest_lines(map(fold_side, chain.from_iterable(pairs))).tobytes())
            page = encode_pairs(pairs, tokenizers)
            lengths = np.concatenate(page.lengths).astype(ID).tobytes()
            page_ids = np.concatenate((page.src.ids, page.tgt.ids)).astype(ID).tobytes()
            pages.write(page_entry(src_tokens + tgt_tokens, lengths, page_ids))
            ids.write(page_ids)
            count += len(pairs)
            src_tokens += len(page.src.ids)
            tgt_tokens += len(page.tgt.ids)
    return EncodedPart(directory, count, src_tokens, tgt_tokens)


# --- shards --------------------------------------------------------------------------------------


class ShardedStore:
    """The pairs of a store that are short enough to train on, in shards; none is kept in memory.

    Shard k of K has the pages k, k + K, k + 2K, …, so each is an even sample of the corpus,
    whatever its order. ``shard_pairs`` is a multiple of the pairs of a page.
    """

    def __init__(
        self,
        store: EncodedStore,
        max_length: int,
        batch_tokens: int,
        shard_pairs: int = SHARD_PAIRS,
        mix: Mix | None = None,
    ) -> None:
        self._store = store
        self._mix = mix
        self._max_length = max_length
        self._batch_tokens = batch_tokens
        self.num_shards = -(-store.num_pages // (shard_pairs // store.record.page_pairs))
        settings = {
            "shard_pairs": str(shard_pairs),
            "max_length": str(max_length),
            "batch_tokens": str(batch_tokens),
            "mix": repr(mix),
        }
        noted = store.record.counts
        if noted is None or noted.settings != settings:
            noted = self._count(settings)
        self._counts = noted

    def __len__(self) -> int:
        return self._counts.pairs

    def count_batches(self, batch_tokens: int) -> list[int]:
        """Return the number of batches of each shard; see ``ShardedText``."""
        assert batch_tokens == self._batch_tokens
        return self._counts.batches

    def save_counts(self) -> None:
        """Note the counts in the store's record, while no other process writes to the store."""
        store_artifact(self._store.directory).update(self._store.record, counts=self._counts)
        self._store.record.counts = self._counts

    def shard(self, number: int) -> EncodedText:
        """Return the pairs of a shard; see ``ShardedText``."""
        pages = []
        numbers = range(number, self._store.num_pages, self.num_shards)
        for place, page in zip(numbers, self._store.read_pages(numbers), strict=True):
            if self._mix is not None:
                first = place * self._store.record.page_pairs
                page = self._mix.add_tags(page, np.arange(first, first + len(page)))
            is_short = np.maximum(*page.lengths) <= self._max_length
            pages.append(page if is_short.all() else page.take(np.flatnonzero(is_short)))
        return EncodedText(
            TokenArray.concatenate([page.src for page in pages]),
            TokenArray.concatenate([page.tgt for page in pages]),
        )

    def sampler(self, number: int) -> Sampler | None:
        """Return what draws the pairs of a shard; see ``ShardedText``."""
        return None if self._mix is None else self._mix.build_sampler(*self._short_pairs(number))

    def _short_pairs(self, number: int) -> tuple[Lengths, np.ndarray]:
        """Return the lengths of the pairs of a shard, and their places in the whole text."""
        pages = np.arange(number, self._store.num_pages, self.num_shards)
        none = np.zeros(0, np.int64)
        sides = zip((none, none), *self._store.read_lengths(pages.tolist()), strict=True)
        src, tgt = map(np.concatenate, sides)
        page_pairs = self._store.record.page_pairs
        places = (pages[:, None] * page_pairs + np.arange(page_pairs)).ravel()
        places = places[places < len(self._store)]
        if self._mix is not None:
            src = src + self._mix.count_tags(places)
        is_short = np.maximum(src, tgt) <= self._max_length
        return Lengths(src[is_short], tgt[is_short]), places[is_short]

    def _count(self, settings: dict[str, str]) -> BatchCounts:
        pairs, batches = 0, []
        for number in range(self.num_shards):
            lengths, places = self._short_pairs(number)
            pairs += len(lengths.src)
            sampler = None if self._mix is None else self._mix.build_sampler(lengths, places)
            planned = lengths if sampler is None else sampler.lengths
            batches.append(count_batches(planned, self._batch_tokens))
        return BatchCounts(settings, pairs, batches)
