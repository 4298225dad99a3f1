"""The training text as token ids on disk: written, read, and cut into shards to train on.

A store is an artifact. Its pairs are in pages of some neighbours each, and its files hold, as
little-endian numbers, page after page:

- ``ids``: the tokens of the page's sources, then those of its targets;
- ``pages``: a CRC-32 of what follows, one of the page's ids, where these start, and how many tokens
  each of the sources and then of the targets has.

Extensions may keep something about the lines in further files.
"""

import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import repeat
from pathlib import Path
from struct import Struct
from typing import BinaryIO, NamedTuple

import numpy as np

from transformer_cli.base import registry
from transformer_cli.base.artifact import Artifact, Record
from transformer_cli.base.errors import CorpusError, RunError, TokenizerError, TransformerCliError
from transformer_cli.base.locations import open_regular
from transformer_cli.base.messages import show_progress
from transformer_cli.base.workers import SerialExecutor
from transformer_cli.data.corpus import ParallelText, in_batches
from transformer_cli.data.token_arrays import (
    EncodedText,
    EveryPair,
    Lengths,
    Mix,
    Sampler,
    SrcTgt,
    TokenArray,
    encode_pairs,
)
from transformer_cli.data.training_text import (
    PairSums,
    StreamedText,
    TextStats,
    hash_text,
    keep_full,
    map_blocks,
)
from transformer_cli.text.protocol import StreamedLines, Tokenizers
from transformer_cli.text.tokenizer import load_tokenizers

PAGE_PAIRS = 256
"""Neighbouring pairs that are read together."""
SHARD_PAIRS = 131_072
"""Maximum of pairs of a shard: some 15 MB of captions, and enough to bucket by length."""
IDS, PAGES = "ids", "pages"
ID = np.dtype("<i4")
_HEADER = Struct("<IIq")
"""Of a page: both sums, and where its ids start."""


class StoreRecord(Record):
    """Content of store.json."""

    stats: TextStats
    page_pairs: int
    """Pairs of every page but the last, which may have fewer."""
    src_tokens: int = 0
    """Tokens of all sources, without BOS and EOS."""
    tgt_tokens: int = 0


def store_artifact(directory: Path) -> Artifact[StoreRecord]:
    """Return the artifact that a store is."""
    return Artifact(directory, StoreRecord, "store.json")


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
                f"{path}: cannot be read ({error.strerror}); the same command makes it again"
            ) from error

    def _damage(self, name: str, number: int) -> RunError:
        return RunError(
            f"{self.directory / name}: page {number} is damaged: its checksum does not fit, or "
            f"bytes are missing; delete {self.directory}, and the same command makes it again"
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
    if not record.files.keys() >= {IDS, PAGES}:
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


# --- writing --------------------------------------------------------------------------------------


Load = Callable[[], Tokenizers]
"""Returns the tokenizers, where they are needed."""


class EncodedBlock(NamedTuple):
    """A block of the text as a task returns it."""

    text: EncodedText
    """Pairs with text on both sides."""
    sha256: str
    """Of these; see ``PairSums``."""
    kept: dict[str, bytes]
    """What extensions keep of them, by the names of their files."""


@lru_cache(maxsize=1)
def load_once(directory: Path, fingerprint: str) -> Tokenizers:
    """Load the tokenizers of a directory, unless the last ones were of this fingerprint."""
    return load_tokenizers(directory)


def write_store(
    directory: Path,
    text: StreamedText,
    load: Load,
    tokenizer: str,
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
    record = StoreRecord(
        made_of={"text": text.stats.text_sha256, "tokenizer": tokenizer},
        stats=text.stats,
        page_pairs=page_pairs,
    )

    def write(made: Path) -> StoreRecord:
        blocks = map_blocks(executor or SerialExecutor(), _encode_block, text.source.blocks(), load)
        written = _write_files(made, blocks, record)
        deque(show_progress(StreamedLines(lambda: written, len(text)), "encoding"), maxlen=0)
        return record

    return EncodedStore(directory, store_artifact(directory).make(write))


def _encode_block(block: ParallelText, load: Load) -> EncodedBlock:
    try:
        tokenizers, sums, texts = load(), PairSums(), []
        keep = {name: entry.load() for name, entry in registry.entries("stored").items()}
        kept: dict[str, list[bytes]] = {name: [] for name in keep}
        for batch in in_batches(keep_full(block.pairs())):
            sums.update(batch)
            texts.append(encode_pairs(batch, tokenizers))
            for name, digest in keep.items():
                kept[name].append(digest(batch))
    except (TransformerCliError, OSError, MemoryError):
        raise
    except Exception as error:  # others may not be such as can be sent
        reason = f"{type(error).__name__}: {error}"
        raise TokenizerError(f"the training text cannot be encoded ({reason})") from None
    parts = {name: b"".join(each) for name, each in kept.items()}
    return EncodedBlock(EncodedText.concatenate(texts), sums.sha256(), parts)


def _write_files(
    directory: Path, blocks: Iterable[EncodedBlock], record: StoreRecord
) -> Iterator[str]:
    """Write a store's files, and count tokens in ``record``; yield something for each pair."""
    sums: list[str] = []

    def receive() -> Iterator[EncodedText]:
        for block in blocks:
            sums.append(block.sha256)
            for name, data in block.kept.items():
                with (directory / name).open("ab") as file:
                    file.write(data)
            yield block.text

    with (directory / IDS).open("xb") as ids, (directory / PAGES).open("xb") as pages:
        for page in cut_pages(receive(), record.page_pairs):
            entry, data = pack_page(page, record.src_tokens + record.tgt_tokens)
            pages.write(entry)
            ids.write(data)
            record.src_tokens += len(page.src.ids)
            record.tgt_tokens += len(page.tgt.ids)
            yield from repeat("", len(page))
    if hash_text(sums) != record.stats.text_sha256:
        raise CorpusError(
            "split 'train': its files have changed while they were read; start again when nobody "
            "writes to them"
        )


def cut_pages(texts: Iterable[EncodedText], page_pairs: int) -> Iterator[EncodedText]:
    """Cut text into pages, of which the last may have fewer pairs."""
    rest = EncodedText.concatenate([])
    for text in texts:
        rest = EncodedText.concatenate([rest, text])
        places = np.arange(len(rest))
        whole = len(rest) - len(rest) % page_pairs
        for start in range(0, whole, page_pairs):
            yield rest.take(places[start : start + page_pairs])
        rest = rest.take(places[whole:])
    if len(rest):
        yield rest


def pack_page(page: EncodedText, start: int) -> tuple[bytes, bytes]:
    """Return a page's entry in ``pages`` and its ids, which start behind so many others."""
    ids = np.concatenate((page.src.ids, page.tgt.ids)).astype(ID).tobytes()
    lengths = np.concatenate(page.lengths).astype(ID).tobytes()
    checked = _HEADER.pack(0, zlib.crc32(ids), start)[4:] + lengths
    return zlib.crc32(checked).to_bytes(4, "little") + checked, ids


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
        shard_pairs: int = SHARD_PAIRS,
        mix: Mix | None = None,
    ) -> None:
        self._store = store
        self._mix = mix
        self._max_length = max_length
        self.num_shards = -(-store.num_pages // (shard_pairs // store.record.page_pairs))

    @cached_property
    def num_pairs(self) -> int:
        """Number of short pairs."""
        numbers = range(self.num_shards)
        return sum(len(self._short_pairs(number)[1]) for number in numbers)

    def shard(self, number: int) -> EncodedText:
        """Return the pairs of a shard; see ``ShardedText``."""
        text = EncodedText.concatenate([*self._store.read_pages(self._pages(number))])
        if self._mix is not None:
            text = self._mix.add_tags(text, self._places(number))
        is_short = np.maximum(*text.lengths) <= self._max_length
        return text if is_short.all() else text.take(np.flatnonzero(is_short))

    def sampler(self, number: int) -> Sampler:
        """Return what draws the pairs of a shard; see ``ShardedText``."""
        lengths, places = self._short_pairs(number)
        return EveryPair(lengths) if self._mix is None else self._mix.build_sampler(lengths, places)

    def _pages(self, number: int) -> range:
        return range(number, self._store.num_pages, self.num_shards)

    def _places(self, number: int) -> np.ndarray:
        """Return the places in the whole text of a shard's pairs, long ones too."""
        page_pairs = self._store.record.page_pairs
        firsts = np.array(self._pages(number)) * page_pairs
        places = (firsts[:, None] + np.arange(page_pairs)).ravel()
        return places[places < len(self._store)]

    def _short_pairs(self, number: int) -> tuple[Lengths, np.ndarray]:
        """Return the lengths of the short pairs of a shard, and their places in the whole text."""
        sides = zip(*self._store.read_lengths(self._pages(number)), strict=True)
        src, tgt = map(np.concatenate, sides)
        places = self._places(number)
        if self._mix is not None:
            src = src + self._mix.count_tags(places)
        is_short = np.maximum(src, tgt) <= self._max_length
        return Lengths(src[is_short], tgt[is_short]), places[is_short]
