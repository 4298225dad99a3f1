"""Text as token ids on disk: written once as a stream, read page by page.

A store is a directory of three files. ``pages`` holds one page after another, each with its
checksums (see data/pages.py), ``index`` where each page starts (int64, little-endian), and
``store.json`` what they were made of. It appears by one rename, complete.

Opening one reads store.json alone, as long as the files are of the size and from the time that are
noted there; no bit of a page is used before its checksum has been compared. So a store of any size
is opened at once, and damage is noticed where it would be used.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict

from transformer_cli.data.encoded import EncodedText
from transformer_cli.data.encoding import Encode, Pairs
from transformer_cli.data.pages import packed_lengths, read_lengths, read_page
from transformer_cli.data.sealed import read_sealed, write_sealed
from transformer_cli.data.streamed import StreamedLines, StreamedText, Survey
from transformer_cli.errors import RunError
from transformer_cli.files import whole_directory
from transformer_cli.text.lines import Progress

PAGE_PAIRS = 256
"""Neighbouring pairs that stay together, so that they are read in one go."""

_DESCRIPTION = "store.json"
_PAGES, _INDEX = "pages", "index"
_START = 8  # bytes of a page's place in the index

T = TypeVar("T")


class _Description(BaseModel):
    """What store.json says."""

    model_config = ConfigDict(extra="forbid", strict=True)

    format: Literal[2] = 2
    survey: Survey
    page_pairs: int
    """Pairs of every page but the last."""
    tokenizer: str
    """The fingerprint of the tokenizer that made the ids."""
    src_tokens: int
    tgt_tokens: int
    files: dict[str, tuple[int, int]]
    """Each file's size in bytes and its time of change in ns."""


@dataclass(frozen=True)
class EncodedStore:
    """The training text as token ids on disk. Nothing of it is held here.

    Attributes:
        directory: where it is.
        pairs: how many there are.
        page_pairs: how many a page has, except that the last one may have fewer.
        src_tokens: tokens of all sources, without begin and end marks.
        tgt_tokens: tokens of all targets.
        text_sum: the text's sum, as in its survey.
        tokenizer: the fingerprint of the tokenizer that made the ids.

    Raises of its methods:
        RunError: the files are not there any more, or not what they were.
    """

    directory: Path
    pairs: int
    page_pairs: int
    src_tokens: int
    tgt_tokens: int
    text_sum: str
    tokenizer: str

    def __len__(self) -> int:
        return self.pairs

    @property
    def pages(self) -> int:
        """The number of pages."""
        return -(-self.pairs // self.page_pairs)

    def read(self, pages: Iterable[int]) -> Iterator[EncodedText]:
        """The pairs of each of these pages."""
        return self._each(pages, read_page)

    def lengths(self, pages: Iterable[int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Tokens of source and target of each pair of each of these pages; no ids are read."""
        return self._each(pages, read_lengths)

    def length_counts(self) -> tuple[np.ndarray, np.ndarray]:
        """How many sources, and how many targets, have 0, 1, 2, … tokens."""
        src_counts, tgt_counts = np.zeros(1, np.int64), np.zeros(1, np.int64)
        for src_lengths, tgt_lengths in self.lengths(range(self.pages)):
            src_counts = _counted(src_counts, src_lengths)
            tgt_counts = _counted(tgt_counts, tgt_lengths)
        return src_counts, tgt_counts

    def is_whole(self) -> bool:
        """Whether every page is as it was written; all of them are read."""
        try:
            for _ in self.read(range(self.pages)):
                pass
        except RunError:
            return False
        return True

    def _each(self, pages: Iterable[int], read: Callable[[BinaryIO, int, int], T]) -> Iterator[T]:
        with _opened(self.directory / _PAGES) as file, _opened(self.directory / _INDEX) as index:
            size = file.seek(0, os.SEEK_END)
            for number in pages:
                pairs = min(self.page_pairs, self.pairs - number * self.page_pairs)
                try:
                    file.seek(_start(index, number, size))
                    yield read(file, number, pairs)
                except ValueError as error:
                    raise RunError(
                        f"{file.name}: page {number} is damaged: its checksum does not fit, or "
                        f"bytes are missing; delete {self.directory}, and the same command makes "
                        "it anew"
                    ) from error


def write_store(
    directory: Path,
    text: StreamedText,
    encode: Encode,
    tokenizer: str,
    progress: Progress,
    page_pairs: int = PAGE_PAIRS,
) -> EncodedStore:
    """Encode ``text`` into the new directory ``directory``.

    Args:
        directory: it must not exist yet.
        text: what to encode, gone through once.
        encode: what makes ids of it.
        tokenizer: the fingerprint of the tokenizers that ``encode`` uses.
        progress: wraps the sources' lines, given what is done with them, to draw a bar.
        page_pairs: pairs of a page.

    Raises:
        CorpusError: the text is not any more what it was when it was surveyed.
        TokenizerError: it cannot be encoded.
        OSError: the files cannot be written; nothing is left of them.
    """
    with whole_directory(directory) as temporary:
        pages = _in_pages(_watched(text, progress), page_pairs)
        with closing(encode(pages)) as encoded:
            src_tokens, tgt_tokens = _write_pages(temporary, encoded)
        stamp = text.source.stamp()
        text.refuse_if_changed()
        description = _Description(
            survey=replace(text.survey, stamp=stamp),
            page_pairs=page_pairs,
            tokenizer=tokenizer,
            src_tokens=src_tokens,
            tgt_tokens=tgt_tokens,
            files=_times(temporary),
        )
        write_sealed(temporary / _DESCRIPTION, description)
    return _described(directory, description)


def open_store(directory: Path, text_sum: str, tokenizer: str) -> EncodedStore | None:
    """The store in ``directory``, if it is whole and holds this text in these tokens.

    Nothing is written. Where the files' sizes are those that are noted but their times are not, as
    those of a copy, every page is read and checked.

    Args:
        directory: where it is, if it is there.
        text_sum: the one of the text's survey.
        tokenizer: the fingerprint of the tokenizers.
    """
    store = open_checked_store(directory, text_sum, tokenizer)
    description = _read_description(directory)
    if store is None or description is None:
        return None
    return store if description.files == _times(directory) or store.is_whole() else None


def open_checked_store(directory: Path, text_sum: str, tokenizer: str) -> EncodedStore | None:
    """As ``open_store``, for a store that another process has just opened so.

    Its files' times are not looked at, since machines that share a file system may see different
    ones.
    """
    description = _read_description(directory)
    if description is None:
        return None
    if (description.survey.text_sum, description.tokenizer) != (text_sum, tokenizer):
        return None
    try:
        found = _times(directory)
    except OSError:
        return None
    if _sizes(found) != _sizes(description.files):
        return None
    return _described(directory, description)


def note_times(directory: Path, survey: Survey) -> None:
    """Note when the files of a whole store were changed, and when those of its text were.

    Args:
        directory: what ``open_store`` has just opened; nobody else may write to it meanwhile.
        survey: its text's.

    Raises:
        OSError: store.json cannot be written; it is as it was.
    """
    description = _read_description(directory)
    if description is None:
        return
    renewed = description.model_copy(update={"survey": survey, "files": _times(directory)})
    if renewed != description:
        write_sealed(directory / _DESCRIPTION, renewed)


def stored_survey(directory: Path) -> Survey | None:
    """What is known of the text that the store in ``directory`` was made of, if it is there."""
    description = _read_description(directory)
    return None if description is None else description.survey


def _read_description(directory: Path) -> _Description | None:
    return read_sealed(directory / _DESCRIPTION, _Description)


def _described(directory: Path, description: _Description) -> EncodedStore:
    return EncodedStore(
        directory,
        pairs=description.survey.pairs,
        page_pairs=description.page_pairs,
        src_tokens=description.src_tokens,
        tgt_tokens=description.tgt_tokens,
        text_sum=description.survey.text_sum,
        tokenizer=description.tokenizer,
    )


def _watched(text: StreamedText, progress: Progress) -> Iterator[tuple[str, str]]:
    """The pairs of ``text``, with a bar drawn by their sources."""
    targets: deque[str] = deque()

    def sources() -> Iterator[str]:
        for src, tgt in text.pairs():
            targets.append(tgt)
            yield src

    for src in progress(StreamedLines(sources, len(text)), "encoding"):
        yield src, targets.popleft()


def _in_pages(pairs: Iterator[tuple[str, str]], size: int) -> Iterator[Pairs]:
    while page := list(islice(pairs, size)):
        yield page


def _write_pages(directory: Path, pages: Iterable[bytes]) -> tuple[int, int]:
    """Write pages and their index; give the number of source and of target tokens."""
    src_tokens = tgt_tokens = start = 0
    with (directory / _PAGES).open("wb") as file, (directory / _INDEX).open("wb") as index:
        for page in pages:
            index.write(start.to_bytes(_START, "little"))
            file.write(page)
            start += len(page)
            src_lengths, tgt_lengths = packed_lengths(page)
            src_tokens += int(src_lengths.sum())
            tgt_tokens += int(tgt_lengths.sum())
    return src_tokens, tgt_tokens


def _start(index: BinaryIO, number: int, size: int) -> int:
    """Where a page starts in a file of ``size`` bytes, by the index.

    Raises:
        ValueError: the index does not say, or not a place in the file.
    """
    index.seek(number * _START)
    data = index.read(_START)
    start = int.from_bytes(data, "little")
    if len(data) < _START or start >= size:
        raise ValueError("the index is damaged")
    return start


def _times(directory: Path) -> dict[str, tuple[int, int]]:
    stats = {name: (directory / name).stat() for name in (_PAGES, _INDEX)}
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()}


def _sizes(files: dict[str, tuple[int, int]]) -> dict[str, int]:
    return {name: size for name, (size, _) in files.items()}


def _counted(counts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """``counts``, and those of ``lengths`` added."""
    more: np.ndarray = np.bincount(lengths, minlength=len(counts))
    more[: len(counts)] += counts
    return more


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise RunError(
            f"{path}: cannot be read ({error.strerror}); the same command makes it anew"
        ) from error
