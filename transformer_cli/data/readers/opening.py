"""Open a configured source."""

from collections.abc import Iterator
from typing import Protocol

from transformer_cli.config.data_schema import SourceConfig
from transformer_cli.data.corpus import PairSource
from transformer_cli.data.readers.fields import JsonlReader, ParquetReader
from transformer_cli.data.readers.paths import matching_files
from transformer_cli.data.readers.po import PoReader
from transformer_cli.data.readers.text import TextReader, open_text_files
from transformer_cli.data.readers.tmx import TmxReader
from transformer_cli.data.readers.tsv import TsvReader
from transformer_cli.data.readers.units import BadUnits
from transformer_cli.errors import CorpusError

__all__ = ["MAX_BAD_UNITS", "BadUnits", "SourceReader", "TextReader", "open_source"]

MAX_BAD_UNITS = 0.01
"""Share of a source's units that may be damaged, where no setting says otherwise."""


class SourceReader(PairSource, Protocol):
    """A configured source, read anew each time it is asked for."""

    @property
    def bad(self) -> BadUnits:
        """Units that could not be read in the latest pass."""

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield each pair, in order, on one line each, blank ones included.

        Raises:
            CorpusError: a file cannot be read, or more of its units are damaged than may be.
            MissingExtraError: the package that reads the format is not installed.
        """


def open_source(
    source: SourceConfig, src_lang: str, tgt_lang: str, max_bad_units: float = MAX_BAD_UNITS
) -> SourceReader:
    """Return the reader of a source; nothing is read before its pairs are asked for.

    Args:
        source: format, paths and columns or fields.
        src_lang: language of the source side, for formats that name languages.
        tgt_lang: language of the target side.
        max_bad_units: share of units that may be damaged; they are counted and left out.

    Raises:
        CorpusError: no file matches a path with wildcards, or it is a directory's.
    """
    if source.src is not None and source.tgt is not None:
        return open_text_files(source.src, source.tgt)
    if source.path.is_dir():
        endings = ["mo", "po"] if source.format == "po" else [source.format]
        names = " or ".join(str(source.path / f"*.{ending}") for ending in endings)
        raise CorpusError(f"{source.path}: this is a directory; name its files, as in {names}")
    files = (source.path, matching_files(source.path), max_bad_units)
    match source:
        case SourceConfig(src_column=src, tgt_column=tgt) if src is not None and tgt is not None:
            return TsvReader(*files, (src, tgt))
        case SourceConfig(src_field=str(src), tgt_field=str(tgt)):
            form = JsonlReader if source.format == "jsonl" else ParquetReader
            return form(*files, (src, tgt))
        case SourceConfig(format="tmx"):
            return TmxReader(*files, (src_lang, tgt_lang))
    return PoReader(*files, (src_lang, tgt_lang))
