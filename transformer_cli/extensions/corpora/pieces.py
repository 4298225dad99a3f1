"""A source in pieces, which several workers read: some small files, or a range of a large one."""

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from transformer_cli.base.compression import is_plain, open_text
from transformer_cli.base.errors import CorpusError, size as in_words
from transformer_cli.base.locations import locate, sizes
from transformer_cli.data.corpus import LineRange, PairRange, ParallelFiles, cut_lines
from transformer_cli.extensions.corpora.opening import SourceReader, TextReader
from transformer_cli.extensions.corpora.units import BadUnits, OddFileError, Unit, UnitReader

_COPIED_BYTES = 1 << 20
PIECE_BYTES = 1 << 23
"""A file of fewer is read as a whole, and with others."""


@dataclass(frozen=True)
class _UnitFile:
    reader: UnitReader
    file: Path
    lines: LineRange | None = None
    """None: all of the file."""

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.file,)

    def units(self) -> Iterator[Unit]:
        if self.lines is None:
            yield from self.reader.units(self.file)
        else:
            yield from self.reader.units_of(self.lines)


_Whole = ParallelFiles | _UnitFile
_Item = _Whole | PairRange


@dataclass(frozen=True)
class Piece:
    """A part of a source that one worker reads."""

    items: tuple[_Item, ...]
    is_of_only_file: bool
    """Whether the source has no other file, so that it may not be odd."""

    def pairs(self, counts: BadUnits) -> Iterator[tuple[str, str]]:
        """Yield the pairs, and count all units; raise CorpusError if one cannot be read on."""
        for item in self.items:
            try:
                for unit in item.units() if isinstance(item, _UnitFile) else item.pairs():
                    counts.units += 1
                    if isinstance(unit, CorpusError):
                        counts.note(str(unit))
                    else:
                        yield unit
            except OddFileError as error:
                if self.is_of_only_file:
                    raise
                counts.units += 1
                counts.note(str(error))


def count_bytes(reader: SourceReader) -> int:
    """Return the size of a source's files, compressed as they are."""
    return sum(_sizes(_files(reader)))


def cut_source(
    reader: SourceReader, work: Path, executor: Executor, piece_pairs: int
) -> list[Piece]:
    """Cut a source into pieces, in its order; large files of lines at every ``piece_pairs`` lines.

    What has to be decompressed for that is written into the directory ``work``.

    Raises:
        CorpusError: aligned text cannot be read, or is not aligned.
    """
    items = _files(reader)
    of_items = _sizes(items)
    is_only = len(items) == 1
    cuts = {
        place: executor.submit(_cut, item, piece_pairs, work)
        for place, item in enumerate(items)
        if of_items[place] >= PIECE_BYTES and _can_be_cut(item, is_only)
    }
    pieces: list[Piece] = []
    small: list[_Item] = []
    size = 0
    for place, item in enumerate(items):
        if place not in cuts:
            small.append(item)
            size += of_items[place]
        if small and (place in cuts or size >= PIECE_BYTES):
            pieces.append(Piece(tuple(small), is_only))
            small, size = [], 0
        if place in cuts:
            pieces += [Piece((part,), is_only) for part in cuts[place].result()]
    return [*pieces, Piece(tuple(small), is_only)] if small else pieces


def _files(reader: SourceReader) -> list[_Whole]:
    if isinstance(reader, UnitReader):
        bare = replace(reader, files=())
        return [_UnitFile(bare, file) for file in reader.files]
    both = [reader] if isinstance(reader, TextReader) else reader.sources
    return [ParallelFiles(each.src, each.tgt, encoding=each.encoding) for each in both]


def _sizes(items: Sequence[_Whole]) -> list[int]:
    paths = [path for item in items for path in item.paths]
    found = dict(zip(paths, sizes(paths), strict=True))
    return [sum(found[path] for path in item.paths) for item in items]


def _can_be_cut(item: _Whole, is_only: bool) -> bool:
    if (item if isinstance(item, ParallelFiles) else item.reader).encoding is not None:
        return False  # ranges are read as UTF-8
    # Of several packed ones or objects, each is for one worker: copies of all might fill the disk.
    can_be = is_only or all(map(is_plain, item.paths))
    return can_be and (isinstance(item, ParallelFiles) or item.reader.is_of_lines)


def _cut(item: _Whole, size: int, work: Path) -> list[_Item]:
    if isinstance(item, ParallelFiles):
        src, tgt = (cut_file(path, size, work) for path in item.paths)
        item.check_counts(*(sum(part.count for part in side) for side in (src, tgt)))
        return [*map(PairRange, src, tgt)]
    try:
        return [replace(item, lines=lines) for lines in cut_file(item.file, size, work)]
    except CorpusError:
        return [item]  # told as it is read, after what is before the damage


def cut_file(path: Path, size: int, work: Path) -> list[LineRange]:
    """Cut a file, or a plain copy in ``work`` of one that is packed or an object."""
    if is_plain(path):
        return cut_lines(path, size)
    needed, free = locate(path).copy_size(path), shutil.disk_usage(work).free
    if needed > free:
        disk = f"where the disk of {work} has {in_words(free)}"
        problem = f"unpacks to {in_words(needed)}, {disk}"
        raise CorpusError(f"{path}: {problem} free; free some, or write elsewhere")
    copy = work / uuid4().hex  # a new name, as two workers may do this at once
    with open_text(path) as text, copy.open("wb") as file:
        shutil.copyfileobj(text, file, _COPIED_BYTES)
    return cut_lines(copy, size, name=str(path))
