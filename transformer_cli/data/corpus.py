"""Parallel text: line n of one side translates line n of the other. Read, checked and compared."""

import codecs
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from transformer_cli.base.artifact import combine_hashes, hash_files, mtime_key_of
from transformer_cli.base.compression import compressed_ending, open_text
from transformer_cli.base.errors import CorpusError
from transformer_cli.config.choices import DecodingErrors
from transformer_cli.text.lines import is_blank

MAX_LINE_BYTES = 1 << 22
"""Longest line that is read: what has no line ends is no text, and might not fit into memory."""
BLOCK_PAIRS = 1 << 14
"""Neighbouring pairs that one task gets, and that are hashed together."""
BATCH_PAIRS = 512
"""Pairs that are looked at together; a power of two."""

_BATCH_CHARACTERS = 1 << 22
_BLOCK_CHARACTERS = 1 << 24  # so that blocks of very long lines fit into memory
_ENCODING_KEYS = " (`encoding` NAME; in a configuration, encoding: NAME)"
_TAR_MAGICS = b"ustar\x0000", b"ustar  \x00"  # POSIX' and GNU's


class PairSource(ABC):
    """Parallel text that can be read several times."""

    @abstractmethod
    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield each pair of lines, in order, blank ones included."""

    @abstractmethod
    def source_sha256(self) -> str:
        """Return a SHA-256 of all pairs, in hexadecimal."""

    def mtime_key(self) -> str | None:
        """Return a value that changes with the files, if there is one, without reading them."""
        return None

    def blocks(self) -> Iterator["ParallelText"]:
        """Cut the text into blocks of neighbouring pairs, small enough to be sent to a task."""
        for block in in_batches(self.pairs(), BLOCK_PAIRS, _BLOCK_CHARACTERS):
            yield ParallelText([src for src, _ in block], [tgt for _, tgt in block])


@dataclass(frozen=True)
class ParallelText(PairSource):
    """Aligned lines, without their line ends: ``tgt[i]`` translates ``src[i]``."""

    src: list[str]
    tgt: list[str]
    tags: list[str | None] | None = None
    """Name of the tag of each pair's source; None: no source has one."""

    def __len__(self) -> int:
        return len(self.src)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield each pair of lines, in order."""
        return zip(self.src, self.tgt, strict=True)

    def source_sha256(self) -> str:
        """Return a SHA-256 of both sides, in hexadecimal."""
        sides = ("".join(f"{line}\n" for line in side) for side in (self.src, self.tgt))
        return combine_hashes(hashlib.sha256(side.encode()) for side in sides)


@dataclass(frozen=True)
class ParallelFiles(PairSource):
    """Aligned text in two files, compressed or not, read again on each use."""

    src: Path
    tgt: Path
    encoding: str | None = field(default=None, kw_only=True)
    """None: UTF-8."""
    once: bool = field(default=False, compare=False, kw_only=True)
    """Whether a user has named them to be read once; see ``open_text``."""

    @property
    def paths(self) -> tuple[Path, Path]:
        """Both paths."""
        return self.src, self.tgt

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield each pair of lines, in order.

        Raises:
            CorpusError: a side cannot be read, or at the end: the line counts differ, or are 0.
        """
        src_lines, tgt_lines = (
            stream_lines(path, self.once, self.encoding) for path in (self.src, self.tgt)
        )
        count = src_rest = 0
        for src in src_lines:
            tgt = next(tgt_lines, None)
            if tgt is None:
                src_rest = 1 + sum(1 for _ in src_lines)
                break
            count += 1
            yield src, tgt
        tgt_rest = sum(1 for _ in tgt_lines)
        self.check_counts(count + src_rest, count + tgt_rest)

    def check_counts(self, src_lines: int, tgt_lines: int) -> None:
        """Raise CorpusError unless both sides have as many lines, and one at least."""
        if src_lines != tgt_lines:
            raise CorpusError(
                f"{self.src} has {src_lines} lines but {self.tgt} has {tgt_lines}; line n of one "
                "must translate line n of the other, so make their numbers equal"
            )
        if not src_lines:
            raise CorpusError(
                f"{self.src} and {self.tgt} are empty; give files with at least one line"
            )

    def source_sha256(self) -> str:
        """Return a SHA-256 of both sides' decompressed bytes; see ``hash_files``."""
        return hash_files(self.paths, self.encoding)

    def mtime_key(self) -> str | None:
        """Return the key of both files; see ``mtime_key_of``."""
        return mtime_key_of(self.paths, self.encoding)

    def read(self) -> ParallelText:
        """Read all pairs into memory; raise what ``pairs`` does."""
        pairs = list(self.pairs())
        return ParallelText([src for src, _ in pairs], [tgt for _, tgt in pairs])


@dataclass(frozen=True)
class ConcatenatedSources(PairSource):
    """Pairs of several sources, concatenated."""

    sources: tuple[PairSource, ...]

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield each pair of lines, in order, blank ones included."""
        for source in self.sources:
            yield from source.pairs()

    def source_sha256(self) -> str:
        """Return a SHA-256 of the sources' own."""
        sums = "".join(source.source_sha256() for source in self.sources)
        return hashlib.sha256(sums.encode()).hexdigest()

    def mtime_key(self) -> str | None:
        """Return all sources' keys, if each has one."""
        keys = [source.mtime_key() for source in self.sources]
        return None if None in keys else "; ".join(map(str, keys))

    def blocks(self) -> Iterator["ParallelText"]:
        """Cut each source by itself."""
        return chain.from_iterable(source.blocks() for source in self.sources)


def concatenate(first: PairSource, *more: PairSource) -> PairSource:
    """Return the pairs of all these sources, one after another."""
    return ConcatenatedSources((first, *more)) if more else first


# --- lines ---------------------------------------------------------------------------------------


def stream_lines(path: Path, once: bool = False, encoding: str | None = None) -> Iterator[str]:
    """Yield the lines of a text file, compressed or not; raise what ``decode_lines`` does."""
    with open_text(path, once, encoding=encoding) as file:
        yield from decode_lines(bounded_lines(file, str(path)), str(path))


def bounded_lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the lines of a binary file; raise CorpusError at one longer than ``MAX_LINE_BYTES``."""
    lines = iter(partial(file.readline, MAX_LINE_BYTES + 1), b"")
    for number, line in enumerate(lines, start=1):
        if len(line) > MAX_LINE_BYTES:
            raise CorpusError(
                f"{name}:{number}: a line of more than {MAX_LINE_BYTES >> 20} MiB; this is not one "
                "sentence or record on each line"
            )
        yield line


def decode_lines(
    raw_lines: Iterable[bytes], name: str, errors: DecodingErrors = "strict"
) -> Iterator[str]:
    r"""Decode the lines of the binary file ``name`` one by one.

    Only ``\n`` ends a line, so that both sides of a corpus are cut alike by every program: other
    characters that Python's ``splitlines`` breaks at stay in their line. One ``\r`` before the line
    end is dropped, and so is a byte order mark at the start of the file. The last line may lack
    its line end. ``errors`` 'replace' writes U+FFFD for what is not UTF-8.

    Raises:
        CorpusError: a line is not UTF-8, and ``errors`` is 'strict'.
    """
    for number, raw in enumerate(raw_lines, start=1):
        if number == 1:
            raw = without_byte_order_mark(raw, name)
            if not raw:
                return
        yield decode_line(raw, name, number, errors)


def without_byte_order_mark(first_line: bytes, name: str) -> bytes:
    """Return a text file's first line without its mark; CorpusError: it is no UTF-8 text at all."""
    first_line = first_line.removeprefix(codecs.BOM_UTF8)
    if ending := compressed_ending(first_line):
        raise CorpusError(
            f"{name}: is compressed; give it a name that ends with {ending}, or decompress it first"
        )
    if first_line[257:265] in _TAR_MAGICS:  # its headers would be lines
        raise CorpusError(f"{name}: is a tar archive; unpack it, and name the files in it")
    if found := _find_utf16(first_line):
        raise CorpusError(
            f"{name}: is UTF-16, not UTF-8; set its encoding to {found}{_ENCODING_KEYS}, or "
            f"convert it, for example with iconv -f {found.upper()} -t UTF-8"
        )
    return first_line


def _find_utf16(first_line: bytes) -> str | None:
    """Return the name of the UTF-16 that a line seems to be in; None: it is in none."""
    if first_line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    # Without a mark, every other byte of most text is 0.
    head = first_line[:64]
    for name, zeros in (("utf-16-be", head[::2].count(0)), ("utf-16-le", head[1::2].count(0))):
        if len(head) > 4 and zeros * 5 >= len(head) * 2:
            return name
    return None


def decode_line(raw: bytes, name: str, number: int, errors: DecodingErrors = "strict") -> str:
    """Decode a line and leave out its line end; raise what ``decode_lines`` does."""
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    try:
        return raw.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        # Counted in characters, as editors do: what stands before the bad byte is valid.
        column = len(raw[: error.start].decode("utf-8")) + 1
        raise CorpusError(
            f"{name}:{number}: not UTF-8 (byte 0x{raw[error.start]:02x} at column {column} of "
            f"the line); set the file's encoding{_ENCODING_KEYS}, or convert it to UTF-8, for "
            "example with iconv"
        ) from error


# --- pairs with text on both sides ---------------------------------------------------------------


def without_blank_pairs(text: ParallelText) -> tuple[ParallelText, int]:
    """Return the pairs with text on both sides, and the number of the others."""
    pairs = enumerate(text.pairs())
    kept = [index for index, pair in pairs if not any(map(is_blank, pair))]
    src, tgt = ([side[index] for index in kept] for side in (text.src, text.tgt))
    tags = text.tags and [text.tags[index] for index in kept]
    return ParallelText(src, tgt, tags), len(text) - len(kept)


def in_batches(
    pairs: Iterable[tuple[str, str]],
    size: int = BATCH_PAIRS,
    max_characters: int = _BATCH_CHARACTERS,
) -> Iterator[list[tuple[str, str]]]:
    """Yield pairs in lists, which cost less than a call for each; long pairs in short ones."""
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
