"""The training text as token ids on disk: written, read, and cut into shards to train on.

A store is an artifact. Its pairs are in pages of some neighbours each, and its files hold, as
little-endian numbers, page after page:

- ``ids``: the tokens of the page's sources, then those of its targets;
- ``lengths``: how many tokens each of these sources and then of these targets has;
- ``pages``: where the page's ids start, and two CRC-32s, of its ids and of all that is said of it;
- ``lines``: digests of the lines, by which a model's users ask whether it was trained on theirs.
"""

import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from itertools import islice, repeat
from pathlib import Path
from struct import Struct
from typing import BinaryIO

import numpy as np

from transformer_cli.artifact import Artifact, Record, read_record, write_record
from transformer_cli.data.corpus import (
    StreamedLines,
    StreamedText,
    TextStats,
    digest_lines,
    fold_side,
)
from transformer_cli.data.mixing import EpochSampler, TrainingMix
from transformer_cli.data.token_arrays import (
    EncodedText,
    Lengths,
    Pairs,
    SrcTgt,
    TokenArray,
    count_batches,
    encode_pairs,
)
from transformer_cli.errors import RunError
from transformer_cli.files import open_regular
from transformer_cli.text.protocol import ProgressBar, Tokenizers

PAGE_PAIRS = 256
"""Neighbouring pairs that are read together."""
SHARD_PAIRS = 131_072
"""Maximum of pairs of a shard: some 15 MB of captions, and enough to bucket by length."""
IDS, LENGTHS, PAGES, LINES = "ids", "lengths", "pages", "lines"
ID = np.dtype("<i4")
PAGE = Struct("<qII")
"""Start, and both sums."""
_CHECKED = PAGE.size - 4
"""Bytes of an entry that its ``crc`` begins with; the lengths follow."""
_LINES_BYTES = 16
"""Bytes of a pair in ``lines``: its source's digest and its target's."""
_LINES_AT_ONCE = 1 << 17
_COUNTS = "batches.json"


class StoreRecord(Record):
    """Content of store.json."""

    stats: TextStats
    page_pairs: int
    """Pairs of every page but the last, which may have fewer."""
    src_tokens: int
    """Tokens of all sources, without BOS and EOS."""
    tgt_tokens: int


def store_artifact(directory: Path) -> Artifact[StoreRecord]:
    """Return the artifact that a store is."""
    return Artifact(directory, StoreRecord, "store.json")


def made_of(text_sha256: str, tokenizer: str) -> dict[str, str]:
    """Return the fingerprints of a store's inputs: SHA-256 of the text, and the tokenizers'."""
    return {"text": text_sha256, "tokenizer": tokenizer}


# --- writing -------------------------------------------------------------------------------------

PageEncoder = Callable[[Iterable[Pairs]], Generator[EncodedText, None, None]]
"""Yields each page of pairs encoded, in order; closing it ends its workers."""


def encode_serially(
    pages: Iterable[Pairs], tokenizers: Tokenizers
) -> Generator[EncodedText, None, None]:
    """Yield pages encoded in this process."""
    for pairs in pages:
        yield encode_pairs(pairs, tokenizers)


def write_store(
    directory: Path,
    text: StreamedText,
    encode: PageEncoder,
    tokenizer: str,
    progress: ProgressBar,
    page_pairs: int = PAGE_PAIRS,
) -> "EncodedStore":
    """Encode ``text`` into the directory ``directory``, which must not exist yet.

    ``tokenizer`` is the fingerprint of the tokenizers that ``encode`` uses.

    Raises:
        CorpusError: the text has changed since it was checked.
        TokenizerError: it cannot be encoded.
        OSError: the files cannot be written; nothing is left of them.
    """

    def write(made: Path) -> StoreRecord:
        # A progress bar goes over lines, not over pairs.
        bar = progress(StreamedLines(lambda: repeat("", len(text)), len(text)), "encoding")
        pairs = (pair for _, pair in zip(bar, text.pairs(), strict=False))
        pages = iter(lambda: list(islice(pairs, page_pairs)), [])
        src_tokens, tgt_tokens = _write_pages(made, pages, encode)
        mtime_key = text.source.mtime_key()
        text.check_unchanged()
        return StoreRecord(
            made_of=made_of(text.stats.text_sha256, tokenizer),
            stats=replace(text.stats, mtime_key=mtime_key),
            page_pairs=page_pairs,
            src_tokens=src_tokens,
            tgt_tokens=tgt_tokens,
        )

    return EncodedStore(directory, store_artifact(directory).make(write))


def _write_pages(directory: Path, pages: Iterable[Pairs], encode: PageEncoder) -> tuple[int, int]:
    """Write the files of a store; return how many tokens the sources and the targets have."""
    src_tokens = tgt_tokens = 0
    with ExitStack() as stack:
        ids, lengths, table, lines = (
            stack.enter_context((directory / name).open("wb"))
            for name in (IDS, LENGTHS, PAGES, LINES)
        )

        def note_lines() -> Iterator[Pairs]:
            for page in pages:
                folded = (fold_side(side) for pair in page for side in pair)
                lines.write(digest_lines(folded).tobytes())
                yield page

        for page in stack.enter_context(closing(encode(note_lines()))):
            page_lengths = np.concatenate(page.lengths).astype(ID).tobytes()
            page_ids = np.concatenate((page.src.ids, page.tgt.ids)).astype(ID).tobytes()
            table.write(page_entry(src_tokens + tgt_tokens, page_lengths, page_ids))
            lengths.write(page_lengths)
            ids.write(page_ids)
            src_tokens += len(page.src.ids)
            tgt_tokens += len(page.tgt.ids)
    return src_tokens, tgt_tokens


def page_entry(start: int, lengths: bytes, ids: bytes) -> bytes:
    """Return a page's entry in ``pages``."""
    ids_crc = zlib.crc32(ids)
    checked = PAGE.pack(start, ids_crc, 0)[:_CHECKED]
    return PAGE.pack(start, ids_crc, zlib.crc32(lengths, zlib.crc32(checked)))


# --- reading -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EncodedStore:
    """A store, none of which is kept in memory.

    Files are read, not mapped: where a mapped one is cut off, reading it kills the process, and
    what was read of it counts as the process' memory.

    Raises of its methods:
        RunError: the files are missing or damaged.
    """

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
        with self._open(PAGES) as table, self._open(LENGTHS) as file:
            for number in numbers:
                pairs = min(page_pairs, len(self) - number * page_pairs)
                table.seek(number * PAGE.size)
                entry = table.read(PAGE.size)
                file.seek(2 * number * page_pairs * ID.itemsize)
                data = file.read(2 * pairs * ID.itemsize)
                if len(entry) < PAGE.size:
                    raise self._damage(PAGES, number)
                start, ids_crc, crc = PAGE.unpack(entry)
                if zlib.crc32(data, zlib.crc32(entry[:_CHECKED])) != crc:
                    raise self._damage(LENGTHS, number)
                lengths = np.frombuffer(data, ID).astype(np.int64)
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

    def count_short_pairs(self, max_length: int, mix: TrainingMix) -> np.ndarray:
        """Return how many pairs of each source are at most ``max_length`` long, tags included."""
        counts = np.zeros(len(mix.sizes), np.int64)
        first = 0
        for lengths in self.read_lengths():
            pairs = np.arange(first, first + len(lengths.src))
            first += len(pairs)
            longest = np.maximum(lengths.src + mix.count_tags(pairs), lengths.tgt)
            short = mix.sources_of(pairs[longest <= max_length])
            counts += np.bincount(short, minlength=len(counts))
        return counts

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
    if record is None or record.made_of != made_of(text_sha256, tokenizer):
        return None
    if record.files.keys() != {IDS, LENGTHS, PAGES, LINES}:
        return None
    files = [(directory / name, file.size) for name, file in record.files.items()]
    if any(not path.is_file() or path.stat().st_size != size for path, size in files):
        return None
    is_whole = is_verified or artifact.find_damage(record) is None
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
            while chunk := file.read(_LINES_AT_ONCE * _LINES_BYTES):
                yield np.frombuffer(chunk, "<u8").reshape(-1, 2)

    is_whole = path.stat().st_size == record.stats.pairs * _LINES_BYTES
    return read() if is_whole else None


# --- shards --------------------------------------------------------------------------------------


class _BatchCounts(Record):
    """Content of batches.json."""

    pairs: int
    """Of all shards."""
    batches: list[int]
    """Of each shard."""


class ShardedStore:
    """The pairs of a store that are short enough to train on, in shards; none is kept in memory.

    Shard k of K has the pages k, k + K, k + 2K, …, so each is an even sample of the corpus,
    whatever its order. A corpus that fits into one shard keeps its order. ``shard_pairs`` is a
    multiple of the pairs of a page; without ``mix``, sources are all alike and have no tags.
    """

    def __init__(
        self,
        store: EncodedStore,
        max_length: int,
        batch_tokens: int,
        shard_pairs: int = SHARD_PAIRS,
        mix: TrainingMix | None = None,
    ) -> None:
        self._store = store
        self._mix = mix
        self._max_length = max_length
        self._batch_tokens = batch_tokens
        self._counts_path = store.directory / _COUNTS
        self.num_shards = -(-store.num_pages // (shard_pairs // store.record.page_pairs))
        made_of = {
            **store.record.made_of,
            "page_pairs": str(store.record.page_pairs),
            "shard_pairs": str(shard_pairs),
            "max_length": str(max_length),
            "batch_tokens": str(batch_tokens),
            "mix": "" if mix is None else mix.fingerprint,
        }
        saved = read_record(self._counts_path, _BatchCounts)
        self._are_saved = saved is not None and saved.made_of == made_of
        self._counts = saved if saved is not None and self._are_saved else self._count(made_of)

    def __len__(self) -> int:
        return self._counts.pairs

    def count_batches(self, batch_tokens: int) -> list[int]:
        """Return the number of batches of each shard, the same in every epoch."""
        assert batch_tokens == self._batch_tokens
        return self._counts.batches

    def save_counts(self) -> None:
        """Write the numbers of pairs and batches into the store, so that later sessions read them.

        Call it only where no other process writes to the store; OSError if they cannot be written.
        """
        if not self._are_saved:
            write_record(self._counts_path, self._counts)
            self._are_saved = True

    def shard(self, number: int) -> EncodedText:
        """Return the pairs of a shard; see ``ShardedText``."""
        src, tgt = [], []
        numbers = range(number, self._store.num_pages, self.num_shards)
        for place, page in zip(numbers, self._store.read_pages(numbers), strict=True):
            if self._mix is not None:
                first = place * self._store.record.page_pairs
                page = self._mix.add_tags(page, np.arange(first, first + len(page)))
            is_short = np.maximum(*page.lengths) <= self._max_length
            src.append(page.src.filter(is_short))
            tgt.append(page.tgt.filter(is_short))
        return EncodedText(TokenArray.concatenate(src), TokenArray.concatenate(tgt))

    def sampler(self, number: int) -> EpochSampler | None:
        """Return what draws the pairs of a shard; None: each is trained on once an epoch."""
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

    def _count(self, made_of: dict[str, str]) -> _BatchCounts:
        counts = _BatchCounts(made_of=made_of, pairs=0, batches=[])
        for number in range(self.num_shards):
            lengths, places = self._short_pairs(number)
            counts.pairs += len(lengths.src)
            sampler = None if self._mix is None else self._mix.build_sampler(lengths, places)
            planned = lengths if sampler is None else sampler.lengths
            counts.batches.append(count_batches(planned, self._batch_tokens))
        return counts
