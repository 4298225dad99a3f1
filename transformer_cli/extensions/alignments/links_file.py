"""A file of word alignments, with one line for each translated line."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

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
        self._path = path

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(claim(self._path))
            temporary = stack.enter_context(whole_file(self._path, is_named=True))
            self._file = stack.enter_context(text_writer(temporary, self._path))
            self._opened = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        """Put the file in place, or remove it after an error."""
        self._opened.__exit__(*error)  # type: ignore[arg-type]

    def look(self, number: int, src: str, found: Sequence[Translation]) -> Iterable[str]:
        """Write the alignment of one line."""
        links = " ".join(f"{src_word}-{tgt_word}" for src_word, tgt_word in found[0].alignment)
        self._file.write(f"{links}\n")
        return ()
