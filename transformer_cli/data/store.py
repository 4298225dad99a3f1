"""The training text as token ids on disk; encoding.py writes it.

A store is an artifact. Its pairs are in pages of some neighbours each, and its files hold, as
little-endian numbers, page after page:

- ``ids``: the tokens of the page's sources, then those of its targets;
- ``lengths``: how many tokens each of these sources and then of these targets has;
- ``pages``: where the page's ids start, and two CRC-32s, of its ids and of all that is said of it;
- ``lines``: digests of the lines, by which a model's users ask whether it was trained on theirs.
"""

import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import BinaryIO

import numpy as np

from transformer_cli.artifact import Artifact, Record
from transformer_cli.data.corpus import TextStats
from transformer_cli.data.token_arrays import EncodedText, Lengths, SrcTgt, TokenArray
from transformer_cli.errors import RunError
from transformer_cli.files import open_regular

IDS, LENGTHS, PAGES, LINES = "ids", "lengths", "pages", "lines"
ID = np.dtype("<i4")
PAGE = Struct("<qII")
"""Start, and both sums."""
_CHECKED = PAGE.size - 4
"""Bytes of an entry that its ``crc`` begins with; the lengths follow."""
_LINES_BYTES = 16
"""Bytes of a pair in ``lines``: its source's digest and its target's."""
_LINES_AT_ONCE = 1 << 17


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

    def read_lengths(self, numbers: Iterable[int]) -> Iterator[Lengths]:
        """Yield the lengths of the pairs of each of these pages; no ids are read."""
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
        src, tgt = np.zeros(1, np.int64), np.zeros(1, np.int64)
        for lengths in self.read_lengths(range(self.num_pages)):
            src, tgt = _add_counts(src, lengths.src), _add_counts(tgt, lengths.tgt)
        return SrcTgt(src, tgt)

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


def page_entry(start: int, lengths: bytes, ids: bytes) -> bytes:
    """Return a page's entry in ``pages``."""
    ids_crc = zlib.crc32(ids)
    checked = PAGE.pack(start, ids_crc, 0)[:_CHECKED]
    return PAGE.pack(start, ids_crc, zlib.crc32(lengths, zlib.crc32(checked)))


def _add_counts(counts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the histogram ``counts`` with ``lengths`` added."""
    added: np.ndarray = np.bincount(lengths, minlength=len(counts))
    added[: len(counts)] += counts
    return added


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
    try:
        sizes = {name: (directory / name).stat().st_size for name in record.files}
    except OSError:
        return None
    if any(file.size != sizes[name] for name, file in record.files.items()):
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
    is_whole = path.stat().st_size == record.stats.pairs * _LINES_BYTES
    return _read_digests(path) if is_whole else None


def _read_digests(path: Path) -> Iterator[np.ndarray]:
    with open_regular(path) as file:
        while chunk := file.read(_LINES_AT_ONCE * _LINES_BYTES):
            yield np.frombuffer(chunk, "<u8").reshape(-1, 2)
