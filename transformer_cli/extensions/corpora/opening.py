"""Open a source of parallel text with the reader for its format; join several sources."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from transformer_cli.base import registry
from transformer_cli.base.errors import CorpusError, MissingExtraError, UsageError
from transformer_cli.base.locations import LOCAL, find_files, locate
from transformer_cli.data.corpus import Pairs, PairSource, ParallelFiles, mtime_key_of
from transformer_cli.extensions.corpora.po import PoReader
from transformer_cli.extensions.corpora.settings import SourceConfig
from transformer_cli.extensions.corpora.tables import SEPARATED_BY_TABS, FieldsReader, TsvReader
from transformer_cli.extensions.corpora.tmx import TmxReader
from transformer_cli.extensions.corpora.units import BadUnits, UnitReader
from transformer_cli.inference.plain_text import ending_of

MAX_BAD_UNITS = 0.01  # the default share of a source's lines, rows or entries that may be damaged


@dataclass(frozen=True)
class TextReader(ParallelFiles):
    """Two aligned text files. A damaged line is an error, and not left out as in other formats."""

    bad: BadUnits = field(default_factory=BadUnits, compare=False)


@dataclass(frozen=True)
class ConcatenatedSources(PairSource):
    """Several sources of pairs, read one after another as if they were one source."""

    sources: tuple[PairSource, ...]

    def pairs(self) -> Iterator[tuple[str, str]]:
        return chain.from_iterable(source.pairs() for source in self.sources)

    def source_sha256(self) -> str:
        """Return the SHA-256 of the sources' checksums joined together."""
        sums = "".join(source.source_sha256() for source in self.sources)
        return hashlib.sha256(sums.encode()).hexdigest()

    def mtime_key(self) -> str | None:
        """Return the sources' ``mtime_key``s, joined, or None if one of them is None."""
        keys = [source.mtime_key() for source in self.sources]
        return None if None in keys else "; ".join(map(str, keys))

    def blocks(self) -> Iterator[Pairs]:
        return chain.from_iterable(source.blocks() for source in self.sources)


@dataclass(frozen=True)
class ExtendedText(ConcatenatedSources):
    """The training split, followed by the sources added to it."""

    names: tuple[str, ...]  # the names of the added sources

    @property
    def parts(self) -> dict[str, PairSource]:
        """The training split, with the name 'train', and the added sources, keyed by name."""
        return dict(zip(("train", *self.names), self.sources, strict=True))


@dataclass(frozen=True)
class TextFilesReader(ConcatenatedSources):
    """Several pairs of aligned text files, one after another."""

    sources: tuple[ParallelFiles, ...]
    bad: BadUnits = field(default_factory=BadUnits, compare=False)

    @property
    def paths(self) -> list[Path]:
        return [path for source in self.sources for path in source.paths]

    def mtime_key(self) -> str | None:
        """Return one ``mtime_key`` for all files, so that each server is queried only once."""
        return mtime_key_of(self.paths)


SourceReader = TextReader | TextFilesReader | UnitReader
"""The reader of a configured source; each iteration over its pairs reads the source again."""


def check_stores(name: str) -> None:
    """Raise MissingExtraError if the extension ``stores``, which downloads ``name``, is missing."""
    if not registry.is_installed("stores"):
        missing = registry.describe_missing("extension", "stores")
        raise MissingExtraError(f"{name}: cannot be downloaded; {missing}")


def count_bytes(reader: SourceReader) -> int:
    """Return the total size of a source's files as stored, in bytes."""
    by_location: dict[Any, list[Path]] = {}
    for path in reader.paths:
        by_location.setdefault(locate(path), []).append(path)
    sizes = [path.stat().st_size for path in by_location.pop(LOCAL, []) if path.is_file()]
    for location, paths in by_location.items():
        sizes += location.sizes(paths)
    return sum(sizes)


def open_source(
    source: SourceConfig, src_lang: str, tgt_lang: str, max_bad_units: float = MAX_BAD_UNITS
) -> SourceReader:
    """Return a reader for a source; it reads no pairs until they are requested.

    Some formats need the languages. Damaged lines, rows or entries are counted and left out, as
    long as they are at most the fraction ``max_bad_units`` of all. Raise CorpusError if no file
    matches a path with wildcards, a path is a directory, or a file cannot be downloaded.
    """
    if source.opus is not None or source.hf is not None:
        check_stores(source.opus or str(source.hf))
        from transformer_cli.extensions.corpora.by_name import fetch_corpus, fetch_data_set
    if source.opus is not None:
        return _open_text_files(*fetch_corpus(source.opus, src_lang, tgt_lang), (None, None))
    if source.hf is not None:
        of_hub = (Path(source.hf), fetch_data_set(source), max_bad_units)
        src_field = source.src_field or f"translation.{src_lang}"
        tgt_field = source.tgt_field or f"translation.{tgt_lang}"
        return FieldsReader(*of_hub, (src_field, tgt_field), is_parquet=True)
    if source.src is not None and source.tgt is not None:
        return _open_text_files(source.src, source.tgt, source.sums)
    if source.path.is_dir():
        names = source.path / f"*.{source.format}"
        raise CorpusError(f"{source.path}: is a directory; name its files, e.g. {names}")
    files = (source.path, find_files(source.path, source.sums[0]), max_bad_units)
    match source:
        case SourceConfig(src_column=int() | str() as src, tgt_column=int() | str() as tgt):
            return TsvReader(*files, (src, tgt))
        case SourceConfig(src_field=str(src), tgt_field=str(tgt)):
            return FieldsReader(*files, (src, tgt), is_parquet=source.format == "parquet")
    return (TmxReader if source.format == "tmx" else PoReader)(*files, (src_lang, tgt_lang))


def source_of_file(path: Path) -> SourceConfig:
    """Return the source setting for a TMX, PO or two-column TSV file; else raise UsageError."""
    match ending := ending_of(path):
        case ".tmx":
            return SourceConfig(tmx=path)
        case ".po":
            return SourceConfig(po=path)
        case ".tsv":
            return SourceConfig(tsv=path, src_column=1, tgt_column=2)
    hint = f"; {SEPARATED_BY_TABS}" if ending == ".csv" else ""
    raise UsageError(f"{path}: expected .tmx, .po or .tsv (two columns){hint}")


def _open_text_files(
    src: Path, tgt: Path, sums: tuple[str | None, str | None]
) -> TextReader | TextFilesReader:
    """Pair up the source and target files in whose names the wildcards match the same text.

    If there are none, as when 'de/*' matches a.de and 'en/*' a.en, pair up all in sorted order.
    """
    src_files, tgt_files = map(find_files, (src, tgt), sums)
    of_src, of_tgt = _by_parts(src, src_files), _by_parts(tgt, tgt_files)
    if of_src.keys() & of_tgt.keys():
        # Sorting is not enough: 'a.de' goes before 'a.x.de', but 'a.x.en' before 'a.en'.
        for own, others, pattern in ((of_src, of_tgt, tgt), (of_tgt, of_src, src)):
            if alone := [file for parts, file in own.items() if parts not in others]:
                problem = f"no file of {pattern} has the same text in place of * and ?"
                raise CorpusError(f"{alone[0]}: {problem}; add it, or name fewer files")
        tgt_files = tuple(of_tgt[parts] for parts in of_src)
    elif len(src_files) != len(tgt_files):
        raise CorpusError(
            f"{src} matches {len(src_files)} files, but {tgt} matches {len(tgt_files)}; files are "
            "paired up in sorted order, so both must match equally many"
        )
    if len(src_files) == 1:
        return TextReader(src_files[0], tgt_files[0])
    pairs = zip(src_files, tgt_files, strict=True)
    return TextFilesReader(tuple(ParallelFiles(*pair) for pair in pairs))


def _compile(pattern: str) -> re.Pattern[str]:
    """Compile a path pattern to a regular expression: * and ? become groups that match no slash."""
    wildcards = {"*": "([^/]*)", "?": "([^/])"}
    parts = re.split("([*?])", re.sub(r"\*+", "*", pattern))
    return re.compile("".join(wildcards.get(part) or re.escape(part) for part in parts))


def _by_parts(pattern: Path, files: Sequence[Path]) -> dict[tuple[str, ...], Path]:
    """Return a dict of the files, keyed by the texts that the wildcards match in their paths."""
    found = {}
    # Downloaded files are elsewhere, but the ends of their paths are the same.
    begin = next((at for at, part in enumerate(pattern.parts) if set(part) & {"*", "?"}), -1)
    end = pattern.parts[begin:]
    wildcards = _compile("/".join(end))
    for file in files:
        match = wildcards.fullmatch("/".join(file.parts[-len(end) :]))
        # match may be None on Windows, where case is ignored and more files are found.
        found[match.groups() if match else (file.name,)] = file
    return found
