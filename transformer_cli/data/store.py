"""Text as token ids: in flat arrays in memory, and, for the training text, in a store on disk.

A store is a directory, an ``Artifact``, with the training text in pages of neighbouring pairs. For
each page in turn, its files contain these little-endian numbers:

- ``ids``: the tokens of the page's sources, then the tokens of its targets;
- ``pages``: a CRC-32 of the rest of this entry, a CRC-32 of the page's ids, the position where its
  ids start, the number of tokens of each source, and the number of tokens of each target.
"""

import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, repeat
from pathlib import Path
from struct import Struct
from typing import BinaryIO, Generic, NamedTuple, TypeVar

import numpy as np

from transformer_cli.base.artifact import Artifact, Record
from transformer_cli.base.errors import CorpusError, RunError, TokenizerError, TransformerCliError
from transformer_cli.base.locations import open_regular
from transformer_cli.base.messages import show_progress
from transformer_cli.base.workers import SerialExecutor
from transformer_cli.data.corpus import (
    Pairs,
    StreamedText,
    TextStats,
    hash_pairs,
    hash_text,
    in_batches,
    keep_full,
    map_blocks,
)
from transformer_cli.text.protocol import StreamedLines, Tokenizers
from transformer_cli.text.tokenizer import load_tokenizers

PAGE_PAIRS = 256
"""Number of neighbouring pairs in a page, which is read as a whole."""
IDS, PAGES = "ids", "pages"
ID = np.dtype("<i4")
_HEADER = Struct("<IIq")
"""The start of a page's entry in ``pages``: two checksums, and the position of its first id."""


T = TypeVar("T")


class SrcTgt(NamedTuple, Generic[T]):
    """A value for the source side and one for the target side."""

    src: T
    tgt: T


Lengths = SrcTgt[np.ndarray]
"""The number of tokens of each pair's source and target, without BOS and EOS."""


@dataclass(frozen=True)
class TokenArray:
    """Sentences of token ids in one flat array."""

    ids: np.ndarray
    """All tokens, sentence after sentence, without BOS and EOS."""
    offsets: np.ndarray
    """The position where each sentence starts; the last element is the number of tokens."""

    @classmethod
    def from_sentences(cls, sentences: Iterable[Sequence[int]]) -> "TokenArray":
        """Build an array from ``sentences``, iterating over them only once."""
        rows = list(sentences)
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        ids = np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum()))
        return cls.from_lengths(ids, lengths)

    @classmethod
    def from_lengths(cls, ids: np.ndarray, lengths: np.ndarray) -> "TokenArray":
        """Build an array from the concatenated ``ids`` of sentences with these ``lengths``."""
        return cls(ids, np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(lengths))))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each sentence."""
        return np.diff(self.offsets)

    def take(self, indices: np.ndarray) -> "TokenArray":
        """Return the sentences at ``indices``, in that order."""
        starts = self.offsets[indices]
        lengths = self.offsets[indices + 1] - starts
        # For each token: the old start of its sentence, minus the new start.
        shifts = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
        return TokenArray.from_lengths(self.ids[shifts + np.arange(len(shifts))], lengths)

    @classmethod
    def concatenate(cls, parts: "Sequence[TokenArray]") -> "TokenArray":
        """Return the sentences of all ``parts``, in order."""
        ids = [np.zeros(0, dtype=np.int32), *(part.ids for part in parts)]
        lengths = [np.zeros(0, dtype=np.int64), *(part.lengths for part in parts)]
        return cls.from_lengths(np.concatenate(ids), np.concatenate(lengths))


@dataclass(frozen=True)
class EncodedText:
    """Parallel text as token ids: sentence n of one side translates sentence n of the other.

    It can serve as training text with a single shard; see ``shards.ShardedText``.
    """

    src: TokenArray
    tgt: TokenArray
    num_shards = 1

    def __len__(self) -> int:
        return len(self.src)

    @property
    def lengths(self) -> Lengths:
        """The numbers of tokens of each pair's source and target, without BOS and EOS."""
        return Lengths(self.src.lengths, self.tgt.lengths)

    def take(self, indices: np.ndarray) -> "EncodedText":
        """Return the pairs at ``indices``, in that order."""
        return EncodedText(self.src.take(indices), self.tgt.take(indices))

    @classmethod
    def concatenate(cls, parts: "Sequence[EncodedText]") -> "EncodedText":
        """Return the pairs of all ``parts``, in order."""
        src, tgt = ([getattr(part, side) for part in parts] for side in ("src", "tgt"))
        return cls(TokenArray.concatenate(src), TokenArray.concatenate(tgt))

    def shard_lengths(self, shard: int) -> Lengths:
        """Return the lengths of all pairs."""
        return self.lengths

    def draw(self, shard: int, seed: int, epoch: int) -> "EncodedText":
        """Return all pairs, the same in every epoch."""
        return self


def encode_pairs(pairs: Iterable[tuple[str, str]], tokenizers: Tokenizers) -> EncodedText:
    """Return ``pairs`` as token ids."""
    parts = []  # arrays, because ids take seven times as much memory in a list
    for batch in in_batches(pairs):
        sides = tokenizers.encode_pairs(*zip(*batch, strict=True))
        parts.append(EncodedText(*map(TokenArray.from_sentences, sides)))
    return EncodedText.concatenate(parts)


# --- stores ---------------------------------------------------------------------------------------


class StoreRecord(Record):
    """The content of store.json, which describes the training text and its token ids."""

    stats: TextStats
    page_pairs: int
    """The number of pairs in each page; the last one may have fewer."""
    src_tokens: int = 0
    """The number of tokens of all sources, without BOS and EOS."""
    tgt_tokens: int = 0


def store_artifact(directory: Path) -> Artifact[StoreRecord]:
    """Return the object that reads and writes store.json in ``directory``."""
    return Artifact(directory, StoreRecord, "store.json")


@dataclass(frozen=True)
class EncodedStore:
    """The training text as token ids on disk; a page of pairs is read when it is needed.

    All methods that read raise RunError if the files are missing or damaged.
    """

    # The files are not mapped into memory: if a mapped file is cut off, reading it kills the
    # process, and the pages that were read count as memory of the process.

    directory: Path
    record: StoreRecord

    def __len__(self) -> int:
        return self.record.stats.pairs

    @property
    def num_pages(self) -> int:
        """The number of pages."""
        return -(-len(self) // self.record.page_pairs)

    def read_pages(self, numbers: Iterable[int]) -> Iterator[EncodedText]:
        """Yield the pages with these ``numbers``, each as an ``EncodedText``."""
        with self._open(IDS) as file:
            for number, start, ids_crc, lengths in self._read_headers(numbers):
                src_tokens, tgt_tokens = (int(side.sum()) for side in lengths)
                file.seek(start * ID.itemsize)
                data = file.read((src_tokens + tgt_tokens) * ID.itemsize)
                # Modification times show that a program wrote a file, not that a disk damaged it.
                if zlib.crc32(data) != ids_crc:
                    raise self._damage(IDS, number)
                ids = np.frombuffer(data, ID)
                yield EncodedText(
                    TokenArray.from_lengths(ids[:src_tokens], lengths.src),
                    TokenArray.from_lengths(ids[src_tokens:], lengths.tgt),
                )

    def read_lengths(self, numbers: Iterable[int]) -> Iterator[Lengths]:
        """Yield the lengths of the pairs in the pages with these ``numbers``, without ids."""
        return (lengths for *_, lengths in self._read_headers(numbers))

    def _read_headers(self, numbers: Iterable[int]) -> Iterator[tuple[int, int, int, Lengths]]:
        """Yield each page's number, its ids' start and CRC-32, and the lengths of its pairs."""
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

    @contextmanager
    def _open(self, name: str) -> Iterator[BinaryIO]:
        path = self.directory / name
        try:
            with open_regular(path) as file:
                yield file
        except OSError as error:
            raise RunError(
                f"{path}: cannot be read ({error.strerror}); run the same command to rebuild it"
            ) from error

    def _damage(self, name: str, number: int) -> RunError:
        return RunError(
            f"{self.directory / name}: page {number} is damaged (wrong checksum, or missing "
            f"bytes); delete {self.directory}, and run the same command to rebuild it"
        )


def open_store(directory: Path, text_sha256: str, tokenizer: str) -> EncodedStore | None:
    """Return the store in ``directory``; None if missing, damaged, or of another text or tokenizer.

    The checksums of pages are verified only when the pages are read.
    """
    artifact = store_artifact(directory)
    record = artifact.read()
    if record is None or record.made_of != {"text": text_sha256, "tokenizer": tokenizer}:
        return None
    if not record.files.keys() >= {IDS, PAGES}:
        return None
    return EncodedStore(directory, record) if artifact.find_damage(record) is None else None


def read_stats(directory: Path) -> TextStats | None:
    """Return the statistics of the text in a store, or None if there is no store."""
    record = store_artifact(directory).read()
    return None if record is None else record.stats


# --- writing --------------------------------------------------------------------------------------


Load = Callable[[], Tokenizers]
"""A function that loads the tokenizers, in the process that needs them."""


@lru_cache(maxsize=1)
def load_once(directory: Path, fingerprint: str) -> Tokenizers:
    """Load a directory's tokenizers, or return those loaded last if the arguments are the same."""
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

    The executor's tasks call ``load``. ``tokenizer`` is the fingerprint of the tokenizers.

    Raises:
        CorpusError: the text has changed since it was checked.
        TokenizerError: the text cannot be encoded.
        OSError: the files cannot be written; unfinished files are removed.
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


def _encode_block(block: Pairs, load: Load) -> tuple[EncodedText, str]:
    """Return the ids of a block's pairs with text on both sides, and the SHA-256 of these pairs."""
    try:
        pairs = list(keep_full(block))
        text = encode_pairs(pairs, load())
    except (TransformerCliError, OSError, MemoryError):
        raise
    except Exception as error:  # a worker may not be able to send other errors
        reason = f"{type(error).__name__}: {error}"
        raise TokenizerError(f"the training text cannot be encoded ({reason})") from None
    return text, hash_pairs(pairs)


def _write_files(
    directory: Path, blocks: Iterable[tuple[EncodedText, str]], record: StoreRecord
) -> Iterator[str]:
    """Write a store's files, put token counts into ``record``, yield '' for each pair written."""
    sums: list[str] = []

    def receive() -> Iterator[EncodedText]:
        for text, sha256 in blocks:
            sums.append(sha256)
            yield text

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
            "split 'train': its files changed during reading; start again when no other program "
            "is writing to them"
        )


def cut_pages(texts: Iterable[EncodedText], page_pairs: int) -> Iterator[EncodedText]:
    """Cut ``texts`` into pages of ``page_pairs`` pairs; the last page may have fewer."""
    rest = EncodedText.concatenate([])
    for text in texts:
        rest = EncodedText.concatenate([rest, text])
        ends = range(page_pairs, len(rest) + 1, page_pairs)
        *pages, remainder = np.split(np.arange(len(rest)), ends)
        yield from map(rest.take, pages)
        rest = rest.take(remainder)
    if len(rest):
        yield rest


def pack_page(page: EncodedText, start: int) -> tuple[bytes, bytes]:
    """Return a page's bytes for ``pages`` and ``ids``; ``start`` is the index of its first id."""
    ids = np.concatenate((page.src.ids, page.tgt.ids)).astype(ID).tobytes()
    lengths = np.concatenate(page.lengths).astype(ID).tobytes()
    checked = _HEADER.pack(0, zlib.crc32(ids), start)[4:] + lengths
    return zlib.crc32(checked).to_bytes(4, "little") + checked, ids
