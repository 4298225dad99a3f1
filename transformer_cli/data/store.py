"""The training text as token ids on disk, read page by page.

A store is a directory of four files: ``pages`` has the pages with their checksums (data/pages.py),
``index`` where each page starts (int64, little-endian), ``lines`` the digests of each pair's lines,
and ``store.json`` what they were made of. data/store_writer.py writes it; it appears by one rename,
complete. Earlier versions wrote no ``lines``.

Opening a store reads store.json alone, provided that the files have the sizes and times in it. A
page's checksum is verified when it is read, so that damage is found before damaged ids are used.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict

from transformer_cli.artifact import read_record, write_record
from transformer_cli.data.pages import read_lengths, read_page
from transformer_cli.data.streamed import TextStats
from transformer_cli.data.token_arrays import EncodedText, Lengths, SrcTgt
from transformer_cli.errors import RunError
from transformer_cli.files import open_regular

METADATA, PAGES, INDEX, LINES = "store.json", "pages", "index", "lines"
INDEX_BYTES = 8
"""Bytes of an entry of the index."""
LINES_BYTES = 16
"""Bytes of a pair in ``lines``: its source's digest and its target's."""
_CHUNK_PAIRS = 1 << 17

T = TypeVar("T")


class StoreMetadata(BaseModel):
    """Content of store.json."""

    model_config = ConfigDict(extra="forbid", strict=True)

    format: Literal[2] = 2
    survey: TextStats
    page_pairs: int
    """Pairs of every page but the last."""
    tokenizer: str
    """Fingerprint of the tokenizers."""
    src_tokens: int
    tgt_tokens: int
    files: dict[str, tuple[int, int]]
    """Each file's size in bytes and its time of change in ns."""


@dataclass(frozen=True)
class EncodedStore:
    """The training text as token ids on disk; none of it is kept in memory.

    Attributes:
        directory: where it is.
        pairs: number of pairs.
        page_pairs: pairs of every page but the last, which may have fewer.
        src_tokens: tokens of all sources, without BOS and EOS.
        tgt_tokens: tokens of all targets.
        text_sha256: SHA-256 of the text, as in its survey.
        tokenizer: fingerprint of the tokenizers.

    Raises of its methods:
        RunError: the files are missing or damaged.
    """

    directory: Path
    pairs: int
    page_pairs: int
    src_tokens: int
    tgt_tokens: int
    text_sha256: str
    tokenizer: str

    @classmethod
    def from_metadata(cls, directory: Path, metadata: StoreMetadata) -> "EncodedStore":
        """Return the store in ``directory``, whose store.json says ``metadata``."""
        return cls(
            directory,
            pairs=metadata.survey.pairs,
            page_pairs=metadata.page_pairs,
            src_tokens=metadata.src_tokens,
            tgt_tokens=metadata.tgt_tokens,
            text_sha256=metadata.survey.text_sha256,
            tokenizer=metadata.tokenizer,
        )

    def __len__(self) -> int:
        return self.pairs

    @property
    def num_pages(self) -> int:
        """Number of pages."""
        return -(-self.pairs // self.page_pairs)

    def read_pages(self, pages: Iterable[int]) -> Iterator[EncodedText]:
        """Yield the pairs of each of these pages."""
        return self._read(pages, read_page)

    def read_lengths(self, pages: Iterable[int]) -> Iterator[Lengths]:
        """Yield the lengths of the pairs of each of these pages; no ids are read."""
        return self._read(pages, read_lengths)

    def count_lengths(self) -> SrcTgt[np.ndarray]:
        """Return histograms: how many sources, and how many targets, have 0, 1, 2, … tokens."""
        src, tgt = np.zeros(1, np.int64), np.zeros(1, np.int64)
        for lengths in self.read_lengths(range(self.num_pages)):
            src, tgt = _add_counts(src, lengths.src), _add_counts(tgt, lengths.tgt)
        return SrcTgt(src, tgt)

    def is_whole(self) -> bool:
        """Read all pages and return whether their checksums match."""
        try:
            for _ in self.read_pages(range(self.num_pages)):
                pass
        except RunError:
            return False
        return True

    def _read(self, pages: Iterable[int], read: Callable[[BinaryIO, int, int], T]) -> Iterator[T]:
        with _open(self.directory / PAGES) as file, _open(self.directory / INDEX) as index:
            size = file.seek(0, os.SEEK_END)
            for number in pages:
                pairs = min(self.page_pairs, self.pairs - number * self.page_pairs)
                try:
                    file.seek(_read_start(index, number, size))
                    yield read(file, number, pairs)
                except ValueError as error:
                    raise RunError(
                        f"{file.name}: page {number} is damaged: its checksum does not fit, or "
                        f"bytes are missing; delete {self.directory}, and the same command makes "
                        "it anew"
                    ) from error


def open_store(directory: Path, text_sha256: str, tokenizer: str) -> EncodedStore | None:
    """Return the store in ``directory``, or None if it is damaged or of another text or tokenizer.

    Nothing is written. Where the files have the sizes in store.json but other times, as copies do,
    every page is read and verified.

    Args:
        directory: need not exist.
        text_sha256: SHA-256 of the text, as in its survey.
        tokenizer: fingerprint of the tokenizers.
    """
    store = open_checked_store(directory, text_sha256, tokenizer)
    metadata = _read_metadata(directory)
    if store is None or metadata is None:
        return None
    return store if metadata.files == stat_files(directory) or store.is_whole() else None


def open_checked_store(directory: Path, text_sha256: str, tokenizer: str) -> EncodedStore | None:
    """Open a store as ``open_store`` does, where another process has just verified it.

    The files' times are ignored: machines that share a file system may see different ones.
    """
    metadata = _read_metadata(directory)
    if metadata is None:
        return None
    store = EncodedStore.from_metadata(directory, metadata)
    try:
        is_complete = _sizes(stat_files(directory)) == _sizes(metadata.files)
    except OSError:
        return None
    is_same = (store.text_sha256, store.tokenizer) == (text_sha256, tokenizer)
    return store if is_same and is_complete else None


def refresh_metadata(directory: Path, survey: TextStats) -> None:
    """Write the present times of a store's files, and its text's survey, into store.json.

    Args:
        directory: what ``open_store`` has just opened; nobody else may write to it meanwhile.
        survey: of the text.

    Raises:
        OSError: store.json cannot be written; it is left as it was.
    """
    if metadata := _read_metadata(directory):
        renewed = metadata.model_copy(update={"survey": survey, "files": stat_files(directory)})
        if renewed != metadata:
            write_record(directory / METADATA, renewed)


def read_survey(directory: Path) -> TextStats | None:
    """Return the survey of the text in the store, or None if there is no store."""
    metadata = _read_metadata(directory)
    return None if metadata is None else metadata.survey


def read_lines(directory: Path, text_sha256: str) -> Iterator[np.ndarray] | None:
    """Return the digests of the store's lines, both of each pair; None: they are not there.

    Args:
        directory: need not exist.
        text_sha256: SHA-256 of the text, as in its survey.
    """
    metadata = _read_metadata(directory)
    path = directory / LINES
    try:
        size = path.stat().st_size
    except OSError:
        return None
    if metadata is None or metadata.survey.text_sha256 != text_sha256:
        return None
    return _read_digests(path) if size == metadata.survey.pairs * LINES_BYTES else None


def _read_digests(path: Path) -> Iterator[np.ndarray]:
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK_PAIRS * LINES_BYTES):
            yield np.frombuffer(chunk, "<u8").reshape(-1, 2)


def _read_metadata(directory: Path) -> StoreMetadata | None:
    return read_record(directory / METADATA, StoreMetadata)


def stat_files(directory: Path) -> dict[str, tuple[int, int]]:
    """Return the size and the time of change of each file of a store.

    Raises:
        OSError: a file is missing without which there is no training.
    """
    lines = (LINES,) if (directory / LINES).exists() else ()
    stats = {name: (directory / name).stat() for name in (PAGES, INDEX, *lines)}
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()}


def _sizes(files: dict[str, tuple[int, int]]) -> dict[str, int]:
    return {name: size for name, (size, _) in files.items()}


def _read_start(index: BinaryIO, number: int, size: int) -> int:
    """Return where a page starts in a file of ``size`` bytes.

    Raises:
        ValueError: the index is too short, or its entry is beyond the file.
    """
    index.seek(number * INDEX_BYTES)
    entry = index.read(INDEX_BYTES)
    start = int.from_bytes(entry, "little")
    if len(entry) < INDEX_BYTES or start >= size:
        raise ValueError("the index is damaged")
    return start


def _add_counts(counts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the histogram ``counts`` with ``lengths`` added."""
    added: np.ndarray = np.bincount(lengths, minlength=len(counts))
    added[: len(counts)] += counts
    return added


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    try:
        with open_regular(path) as file:
            yield file
    except OSError as error:
        raise RunError(
            f"{path}: cannot be read ({error.strerror}); the same command makes it anew"
        ) from error
