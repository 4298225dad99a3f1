"""Pairs of a prepared corpus: as sources have them, and written to their files."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from transformer_cli.data.corpus import ParallelFiles
from transformer_cli.data.readers.opening import SourceReader
from transformer_cli.files import whole_file


def readable_pairs(reader: SourceReader) -> Iterator[tuple[str, str]]:
    """Yield the pairs without what ``decode_lines`` would drop from their files."""
    for src, tgt in reader.pairs():
        yield src.lstrip("\ufeff").rstrip("\r"), tgt.lstrip("\ufeff").rstrip("\r")


@contextmanager
def open_writer(files: ParallelFiles) -> Iterator[Callable[[str, str], None]]:
    """Yield a function that writes a pair; both files appear when the block succeeds."""
    with ExitStack() as stack:
        src, tgt = (stack.enter_context(_open_side(path)) for path in (files.src, files.tgt))

        def write(src_line: str, tgt_line: str) -> None:
            src.write(f"{src_line}\n")
            tgt.write(f"{tgt_line}\n")

        yield write


@contextmanager
def _open_side(path: Path) -> Iterator[TextIO]:
    with whole_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        yield file
