"""Text cut into ranges of lines, so that several processes read one file, each a part of it."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from uuid import uuid4

import numpy as np

from transformer_cli.archives import check_room
from transformer_cli.compression import is_packed, open_text
from transformer_cli.data.corpus import (
    ParallelFiles,
    bounded_lines,
    decode_lines,
    without_byte_order_mark,
)
from transformer_cli.errors import CorpusError
from transformer_cli.objects import ObjectPath

_BLOCK_BYTES = 1 << 20
_HEAD_BYTES = 16


@dataclass(frozen=True)
class LineRange:
    """Neighbouring lines of a plain text file."""

    path: Path
    name: str
    """Of the file for messages: what ``path`` is a decompressed copy of, perhaps."""
    start: int
    """Byte at which the first line begins."""
    first: int
    """Number of the first line, from 1."""
    count: int

    def raw_lines(self) -> Iterator[bytes]:
        """Yield the lines as they are; raise CorpusError if there are fewer than there were."""
        left = self.count
        with open_text(self.path, start=self.start) as file:
            for line in islice(bounded_lines(file, self.name, self.first), self.count):
                left -= 1
                yield line
        if left:
            raise CorpusError(
                f"{self.name}: has become shorter while it was read; start again when nobody "
                "writes to it"
            )

    def lines(self) -> Iterator[str]:
        """Yield the decoded lines; raise what ``raw_lines`` and ``decode_lines`` do."""
        return decode_lines(self.raw_lines(), self.name, first=self.first)


@dataclass(frozen=True)
class PairRange:
    """Neighbouring pairs of aligned text."""

    src: LineRange
    tgt: LineRange

    def __len__(self) -> int:
        return self.src.count

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield each pair; raise CorpusError if a line cannot be read."""
        return zip(self.src.lines(), self.tgt.lines(), strict=True)


def is_plain(path: Path) -> bool:
    """Return whether a file can be cut without a copy."""
    return not is_packed(path) and not isinstance(path, ObjectPath)


def cut_lines(path: Path, size: int, work: Path) -> list[LineRange]:
    """Cut a text file into ranges of ``size`` lines, of which the last may have fewer.

    Of a packed file and of an object, a plain copy is written into the directory ``work``, for
    as long as the ranges are read. Raises what ``open_text`` and ``without_byte_order_mark`` do.
    """
    # Absolute for workers elsewhere; of a new name, as two of them may do this at once.
    plain = path.absolute() if is_plain(path) else work / uuid4().hex
    check_room(path, work)
    starts, lines, end = [0], 0, 0
    head = last = b""
    with ExitStack() as stack:
        text = stack.enter_context(open_text(path))
        copy = None if is_plain(path) else stack.enter_context(plain.open("wb"))
        while block := text.read(_BLOCK_BYTES):
            head, last = (head + block[:_HEAD_BYTES])[:_HEAD_BYTES], block[-1:]
            if copy is not None:
                copy.write(block)
            ends = block.count(b"\n")
            if lines + ends >= len(starts) * size:
                places = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
                cuts = range(len(starts) * size - lines, ends + 1, size)
                starts += [end + int(places[cut - 1]) + 1 for cut in cuts]
            lines += ends
            end += len(block)
    # The last line may lack its end; and a byte order mark alone is no line.
    lines += bool(without_byte_order_mark(head, str(path))) and last != b"\n"
    return [
        LineRange(plain, str(path), start, number * size + 1, min(size, lines - number * size))
        for number, start in enumerate(starts)
        if number * size < lines
    ]


def cut_pairs(files: ParallelFiles, size: int, work: Path) -> list[PairRange]:
    """Cut aligned text into ranges of ``size`` pairs; see ``cut_lines``.

    Raises:
        CorpusError: a side cannot be read, or the line counts differ, or are 0.
    """
    src, tgt = (cut_lines(path, size, work) for path in (files.src, files.tgt))
    files.check_counts(*(sum(part.count for part in side) for side in (src, tgt)))
    return list(map(PairRange, src, tgt))
