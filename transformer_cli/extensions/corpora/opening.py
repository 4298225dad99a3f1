"""Open a configured source, in the format that it is in."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformer_cli.base import registry
from transformer_cli.base.errors import CorpusError, MissingExtraError, UsageError
from transformer_cli.base.locations import LOCAL, find_files, locate
from transformer_cli.base.text_files import is_compressed
from transformer_cli.data.corpus import ParallelFiles, mtime_key_of
from transformer_cli.extensions.corpora.concatenated import ConcatenatedSources
from transformer_cli.extensions.corpora.po import PoReader
from transformer_cli.extensions.corpora.settings import SourceConfig
from transformer_cli.extensions.corpora.tables import SEPARATED_BY_TABS, FieldsReader, TsvReader
from transformer_cli.extensions.corpora.tmx import TmxReader
from transformer_cli.extensions.corpora.units import BadUnits, UnitReader

MAX_BAD_UNITS = 0.01
"""Share of a source's units that may be damaged, where no setting says otherwise."""


@dataclass(frozen=True)
class TextReader(ParallelFiles):
    """Two aligned text files, of which no line may be damaged: the other side's would be lost."""

    bad: BadUnits = field(default_factory=BadUnits, compare=False)


@dataclass(frozen=True)
class TextFilesReader(ConcatenatedSources):
    """Several pairs of aligned text files, one after another."""

    sources: tuple[ParallelFiles, ...]
    bad: BadUnits = field(default_factory=BadUnits, compare=False)

    def mtime_key(self) -> str | None:
        """Return the key of all files, for which a store is asked at once."""
        return mtime_key_of(path for source in self.sources for path in source.paths)


SourceReader = TextReader | TextFilesReader | UnitReader
"""A configured source, read again on each use."""


def check_stores(name: str) -> None:
    """Raise MissingExtraError if nothing here can fetch what ``name`` is found by."""
    if not registry.is_installed("stores"):
        missing = registry.describe_missing("extension", "stores")
        raise MissingExtraError(f"{name}: cannot be fetched; {missing}")


def count_bytes(reader: SourceReader) -> int:
    """Return the size of a source's files, compressed as they are."""
    if isinstance(reader, UnitReader):
        paths = list(reader.files)
    else:
        both = [reader] if isinstance(reader, TextReader) else reader.sources
        paths = [path for files in both for path in files.paths]
    by_location: dict[Any, list[Path]] = {}
    for path in paths:
        by_location.setdefault(locate(path), []).append(path)
    here = [path for path in by_location.pop(LOCAL, []) if path.is_file()]
    sizes = [path.stat().st_size for path in here]
    for location, those in by_location.items():
        sizes += location.sizes(those)
    return sum(sizes)


def open_source(
    source: SourceConfig, src_lang: str, tgt_lang: str, max_bad_units: float = MAX_BAD_UNITS
) -> SourceReader:
    """Return the reader of a source; nothing is read before its pairs are asked for.

    The languages are for formats that name them. At most a share of ``max_bad_units`` may be
    damaged; they are counted and left out.

    Raises:
        CorpusError: no file matches a path with wildcards, it is a directory's, or one of the web
            that cannot be fetched.
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
        raise CorpusError(f"{source.path}: this is a directory; name its files, as in {names}")
    files = (source.path, find_files(source.path, source.sums[0]), max_bad_units)
    match source:
        case SourceConfig(src_column=int() | str() as src, tgt_column=int() | str() as tgt):
            return TsvReader(*files, (src, tgt))
        case SourceConfig(src_field=str(src), tgt_field=str(tgt)):
            is_parquet = source.format == "parquet"
            return FieldsReader(*files, (src, tgt), is_parquet)
    return (TmxReader if source.format == "tmx" else PoReader)(*files, (src_lang, tgt_lang))


def source_of_file(path: Path) -> SourceConfig:
    """Return the source that a file is by its name's ending: TMX, PO, or TSV of two columns.

    Raises:
        UsageError: it has another ending.
    """
    name = path.with_suffix("") if is_compressed(path) else path
    match name.suffix.lower().removeprefix("."):
        case "tmx":
            return SourceConfig(tmx=path)
        case "po":
            return SourceConfig(po=path)
        case "tsv":
            return SourceConfig(tsv=path, src_column=1, tgt_column=2)
    hint = f"; {SEPARATED_BY_TABS}" if name.suffix.lower() == ".csv" else ""
    raise UsageError(f"{path}: expected TMX, PO, or TSV of two columns, by the name's ending{hint}")


def _open_text_files(
    src: Path, tgt: Path, sums: tuple[str | None, str | None]
) -> TextReader | TextFilesReader:
    """Pair up the files that match both paths, by what the wildcards stand for.

    Where no two files are alike in that, as of 'de/*' and 'en/*', they are in sorted order.
    """
    src_files, tgt_files = map(find_files, (src, tgt), sums)
    of_src, of_tgt = _by_parts(src, src_files), _by_parts(tgt, tgt_files)
    if of_src.keys() & of_tgt.keys():
        # Names alone do not tell: 'a.de' goes before 'a.x.de', and 'a.x.en' before 'a.en', say.
        for own, others, pattern in ((of_src, of_tgt, tgt), (of_tgt, of_src, src)):
            if alone := [file for parts, file in own.items() if parts not in others]:
                problem = f"no file that {pattern} matches goes with it, by what * and ? stand for"
                raise CorpusError(f"{alone[0]}: {problem}; add it, or name fewer files")
        tgt_files = tuple(of_tgt[parts] for parts in of_src)
    elif len(src_files) != len(tgt_files):
        raise CorpusError(
            f"{src} matches {len(src_files)} files, but {tgt} {len(tgt_files)}; they are paired up "
            "in sorted order, so make their numbers equal"
        )
    if len(src_files) == 1:
        return TextReader(src_files[0], tgt_files[0])
    pairs = zip(src_files, tgt_files, strict=True)
    return TextFilesReader(tuple(ParallelFiles(*pair) for pair in pairs))


def _compile(pattern: str) -> re.Pattern[str]:
    """Return a pattern with * and ?, groups that match no slash, as a regular expression."""
    wildcards = {"*": "([^/]*)", "?": "([^/])"}
    parts = re.split("([*?])", re.sub(r"\*+", "*", pattern))
    return re.compile("".join(wildcards.get(part) or re.escape(part) for part in parts))


def _by_parts(pattern: Path, files: Sequence[Path]) -> dict[tuple[str, ...], Path]:
    """Return files by the parts of their names that wildcards stand for."""
    found = {}
    # What is fetched is elsewhere, but the end of its path is the same.
    begin = next((at for at, part in enumerate(pattern.parts) if set(part) & {"*", "?"}), -1)
    end = pattern.parts[begin:]
    wildcards = _compile("/".join(end))
    for file in files:
        match = wildcards.fullmatch("/".join(file.parts[-len(end) :]))
        # None: on Windows, more files match than do here, as case is no matter there.
        found[match.groups() if match else (file.name,)] = file
    return found
