"""Open a configured source."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from transformer_cli.config.schema import SourceConfig
from transformer_cli.data.corpus import ParallelFiles
from transformer_cli.data.streamed import PairSource

MAX_BAD_UNITS = 0.01
"""Share of a source's units that may be damaged, where no setting says otherwise."""


@dataclass
class BadUnits:
    """Units that could not be read in the latest pass: lines, records or translation units."""

    units: int = 0
    """All units, damaged or not."""
    count: int = 0
    first: list[str] = field(default_factory=list)
    """Messages of the first ones, each with file, line or unit, and field."""


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


@dataclass(frozen=True)
class TextReader(ParallelFiles):
    """Aligned text files, of which no unit may be damaged."""

    bad: BadUnits = field(default_factory=BadUnits, compare=False)


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
        CorpusError: no file matches a path with wildcards.
    """
    if source.src is not None and source.tgt is not None:
        return TextReader(source.src, source.tgt)
    raise NotImplementedError
