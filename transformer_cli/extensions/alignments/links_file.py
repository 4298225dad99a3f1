"""A file of word alignments, with one line for each translated line."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TextIO

from transformer_cli.base.text_files import text_writer
from transformer_cli.base.writing import claim, whole_file
from transformer_cli.inference.translation import Notes, Reviser, Translation


@dataclass(frozen=True)
class LinksWriter(Reviser):
    """A ``Reviser`` that changes no translations, but writes their word alignments to a file."""

    path: Path

    def notes(self) -> Notes:
        """Return the ``Notes`` object that writes the file."""
        return _Links(self.path)


class _Links(Notes):
    """``Notes`` that write the alignment of each line's best translation, in the Pharaoh format.

    The file appears only once all translations have been written.
    """

    def __init__(self, path: Path) -> None:
        self._opened = _open(path)

    def __enter__(self) -> Self:
        self._file = self._opened.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Put the file in place, or remove it after an error."""
        self._opened.__exit__(*error)  # type: ignore[arg-type]

    def look(self, number: int, src: str, found: Sequence[Translation]) -> Iterable[str]:
        """Write the alignment of one line."""
        links = " ".join(f"{src_word}-{tgt_word}" for src_word, tgt_word in found[0].alignment)
        self._file.write(f"{links}\n")
        return ()


@contextmanager
def _open(path: Path) -> Iterator[TextIO]:
    with (
        claim(path),
        whole_file(path, is_named=True) as temporary,
        text_writer(temporary, path) as file,
    ):
        yield file
