"""Text from several sources, one after another."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from transformer_cli.data.corpus import Pairs, PairSource


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
