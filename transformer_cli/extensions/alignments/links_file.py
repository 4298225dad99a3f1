"""A file of alignments, a line for each line that is translated."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from transformer_cli.base.text_files import text_writer
from transformer_cli.base.writing import claim, whole_file
from transformer_cli.inference.translation import Notes, Translation


@contextmanager
def open_links(path: Path) -> Iterator[Notes]:
    """Open a file that appears only if the block succeeds; yield what writes it."""
    with (
        claim(path),
        whole_file(path, is_named=True) as temporary,
        text_writer(temporary, path) as file,
    ):
        yield _Links(file)


class _Links(Notes):
    """Writes the alignment of each line's best translation, in the Pharaoh format."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def look(self, number: int, src: str, found: Sequence[Translation]) -> Iterable[str]:
        """Write a line."""
        links = " ".join(f"{src_word}-{tgt_word}" for src_word, tgt_word in found[0].alignment)
        self._file.write(f"{links}\n")
        return ()
