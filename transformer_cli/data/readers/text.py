"""Aligned text files."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from transformer_cli.data.corpus import ParallelFiles, hash_files, mtime_key_of
from transformer_cli.data.readers.paths import matching_files
from transformer_cli.data.readers.units import BadUnits
from transformer_cli.errors import CorpusError


@dataclass(frozen=True)
class TextReader(ParallelFiles):
    """Two aligned text files, of which no line may be damaged."""

    bad: BadUnits = field(default_factory=BadUnits, compare=False)


@dataclass(frozen=True)
class TextFilesReader:
    """Several pairs of aligned text files, one after another."""

    files: tuple[ParallelFiles, ...]
    bad: BadUnits = field(default_factory=BadUnits, compare=False)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield each pair of lines, in order; raise what ``ParallelFiles.pairs`` does."""
        for each in self.files:
            yield from each.pairs()

    def source_sha256(self) -> str:
        """Return a SHA-256 of all files, in hexadecimal; raise what ``hash_files`` does."""
        return hash_files(self._paths())

    def mtime_key(self) -> str | None:
        """Return the key of all files; see ``mtime_key_of``."""
        return mtime_key_of(self._paths())

    def _paths(self) -> list[Path]:
        return [path for each in self.files for path in (each.src, each.tgt)]


def open_text_files(src: Path, tgt: Path) -> TextReader | TextFilesReader:
    """Pair up the files that match both paths, in sorted order.

    Raises:
        CorpusError: none match, or not as many of one as of the other.
    """
    src_files, tgt_files = matching_files(src), matching_files(tgt)
    if len(src_files) != len(tgt_files):
        raise CorpusError(
            f"{src} matches {len(src_files)} files, but {tgt} {len(tgt_files)}; they are paired up "
            "in sorted order, so make their numbers equal"
        )
    if len(src_files) == 1:
        return TextReader(src_files[0], tgt_files[0])
    return TextFilesReader(tuple(map(ParallelFiles, src_files, tgt_files)))
