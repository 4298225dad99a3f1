"""Parallel text, read and checked: line n of one side translates line n of the other."""

import codecs
import hashlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO

from transformer_cli.compression import compressed_ending, open_text
from transformer_cli.config.choices import DecodingErrors
from transformer_cli.errors import CorpusError

MAX_LINE_BYTES = 1 << 22
"""Longest line that is read: what has no line ends is no text, and might not fit into memory."""

_CHUNK_BYTES = 1 << 20
# File systems count time in steps, at most of two seconds.
_SETTLED_NS = 2_500_000_000


@dataclass(frozen=True)
class ParallelText:
    """Aligned lines, without their line ends: ``tgt[i]`` translates ``src[i]``.

    Attributes:
        src: the source side.
        tgt: the target side.
        tags: name of each source's tag, or None; None for all: no source has one.
    """

    src: list[str]
    tgt: list[str]
    tags: list[str | None] | None = None

    def __len__(self) -> int:
        return len(self.src)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield each pair of lines, in order."""
        return zip(self.src, self.tgt, strict=True)

    def source_sha256(self) -> str:
        """Return a SHA-256 of both sides, in hexadecimal."""
        return _hash_sides(
            *((f"{line}\n".encode() for line in side) for side in (self.src, self.tgt))
        )

    def stamp(self) -> str | None:
        """Return None: text in memory is identified by its lines alone."""
        return None


@dataclass(frozen=True)
class ParallelFiles:
    """Aligned UTF-8 text in two files, compressed or not, read anew each time it is asked for."""

    src: Path
    tgt: Path
    once: bool = field(default=False, compare=False, kw_only=True)
    """Whether a user has named them to be read once; see ``open_text``."""

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield each pair of lines, in order; at most one line per side is held.

        Raises:
            CorpusError: a side cannot be read, or at the end: the line counts differ, or there are
                no lines at all.
        """
        src_lines, tgt_lines = (stream_lines(path, self.once) for path in (self.src, self.tgt))
        count = 0
        for src in src_lines:
            tgt = next(tgt_lines, None)
            if tgt is None:
                raise self._alignment_error(count + 1 + sum(1 for _ in src_lines), count)
            count += 1
            yield src, tgt
        if rest := sum(1 for _ in tgt_lines):
            raise self._alignment_error(count, count + rest)
        if not count:
            raise CorpusError(
                f"{self.src} and {self.tgt} are empty; give files with at least one line"
            )

    def source_sha256(self) -> str:
        """Return a SHA-256 of both sides' decompressed bytes, in hexadecimal.

        Raises:
            CorpusError: a side cannot be read, or cannot be read more than once.
        """
        return hash_files((self.src, self.tgt))

    def stamp(self) -> str | None:
        """Return the stamp of both files, see ``stamp_files``."""
        return stamp_files((self.src, self.tgt))

    def read(self) -> ParallelText:
        """Read all pairs into memory; raise what ``pairs`` does."""
        pairs = list(self.pairs())
        return ParallelText([src for src, _ in pairs], [tgt for _, tgt in pairs])

    def _alignment_error(self, src_lines: int, tgt_lines: int) -> CorpusError:
        return CorpusError(
            f"{self.src} has {src_lines} lines but {self.tgt} has {tgt_lines}; "
            "line n of one must translate line n of the other, so make their numbers equal"
        )


def read_parallel(src: Path, tgt: Path) -> ParallelText:
    """Read two aligned files.

    Args:
        src: path of the source side, UTF-8, which may be compressed.
        tgt: path of the target side, likewise.

    Raises:
        CorpusError: a side cannot be read, the line counts differ, or there are no lines at all.
    """
    return ParallelFiles(src, tgt).read()


def stream_lines(path: Path, once: bool = False) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, as ``decode_lines`` cuts them; it may be compressed.

    ``once`` as for ``open_text``.

    Raises:
        CorpusError: the file is missing, a directory, damaged or not UTF-8.
    """
    with open_text(path, once) as file:
        yield from decode_lines(bounded_lines(file, str(path)), str(path))


def bounded_lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the lines of a binary file with their line ends, as iterating over it does.

    Raises:
        CorpusError: a line is longer than ``MAX_LINE_BYTES``.
    """
    for number, line in enumerate(iter(partial(file.readline, MAX_LINE_BYTES + 1), b""), start=1):
        if len(line) > MAX_LINE_BYTES:
            raise CorpusError(
                f"{name}:{number}: a line of more than {MAX_LINE_BYTES >> 20} MiB; this is not one "
                "sentence or record on each line"
            )
        yield line


def hash_files(paths: Iterable[Path]) -> str:
    """Return a SHA-256 of the files' decompressed bytes, in hexadecimal.

    Raises:
        CorpusError: a file cannot be read, or cannot be read more than once.
    """
    return _hash_sides(*map(_chunks, paths))


def stamp_files(paths: Iterable[Path]) -> str | None:
    """Return sizes, modification times and inodes of files.

    None: a file is not there, or was changed so recently that another change might leave its times
    as they are.
    """
    found = []
    for path in paths:
        try:
            stat = path.stat()
        except OSError:
            return None
        # Also changed where a file is put in another's place, with its old time.
        changed = max(stat.st_mtime_ns, stat.st_ctime_ns)
        if not S_ISREG(stat.st_mode) or time.time_ns() - changed < _SETTLED_NS:
            return None
        found.append(f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}")
    return ", ".join(found)


def _hash_sides(*sides: Iterable[bytes]) -> str:
    """Return the SHA-256 of all sides' SHA-256, so that no byte can change sides unnoticed."""
    both = hashlib.sha256()
    for chunks in sides:
        side = hashlib.sha256()
        for chunk in chunks:
            side.update(chunk)
        both.update(side.digest())
    return both.hexdigest()


def _chunks(path: Path) -> Iterator[bytes]:
    with open_text(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def decode_lines(
    raw_lines: Iterable[bytes], name: str, errors: DecodingErrors = "strict"
) -> Iterator[str]:
    r"""Decode the lines of a binary file one by one.

    Only ``\n`` ends a line, so that both sides of a corpus are cut alike by every program: other
    characters that Python's ``splitlines`` breaks at stay in their line. One ``\r`` before the line
    end is dropped, and so is a byte order mark at the start of the file. The last line may lack
    its line end.

    Args:
        raw_lines: as iterating over a binary file gives them.
        name: the file's name, for messages.
        errors: 'replace' writes U+FFFD for what is not UTF-8.

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
    """Return the first line of a text file without its byte order mark.

    Raises:
        CorpusError: the file is compressed.
    """
    first_line = first_line.removeprefix(codecs.BOM_UTF8)
    if ending := compressed_ending(first_line):
        raise CorpusError(
            f"{name}: is compressed; give it a name that ends with {ending}, or decompress it first"
        )
    return first_line


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
            "the line); convert the file to UTF-8, for example with iconv"
        ) from error


def without_blank_pairs(text: ParallelText) -> tuple[ParallelText, int]:
    """Leave out the pairs of which at least one side is nothing but whitespace.

    Returns:
        The other pairs in their order, and the number of pairs left out.
    """
    kept = [index for index, (src, tgt) in enumerate(text.pairs()) if src.strip() and tgt.strip()]
    src, tgt = ([side[index] for index in kept] for side in (text.src, text.tgt))
    tags = text.tags and [text.tags[index] for index in kept]
    return ParallelText(src, tgt, tags), len(text) - len(kept)
