"""Training text as a stream: read from its files again for each pass."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Protocol

from pydantic import Field

from transformer_cli.errors import CorpusError


class PairSource(Protocol):
    """Parallel text that can be read several times."""

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield each pair of lines, in order, blank ones included."""

    def source_sha256(self) -> str:
        """Return a SHA-256 of all pairs, in hexadecimal."""

    def stamp(self) -> str | None:
        """Return a value that changes with the files, without reading them.

        None: there is none, or not yet.
        """


PairProgress = Callable[[Iterable[tuple[str, str]], str], Iterable[tuple[str, str]]]
"""Wraps a pass over pairs, given a label, in a progress bar, as tqdm does."""


@dataclass(frozen=True)
class ConcatenatedSources:
    """Pairs of several sources, concatenated."""

    sources: tuple[PairSource, ...]

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield each pair of lines, in order, blank ones included."""
        for source in self.sources:
            yield from source.pairs()

    def source_sha256(self) -> str:
        """Return a SHA-256 of the sources' own."""
        sums = "".join(source.source_sha256() for source in self.sources)
        return hashlib.sha256(sums.encode()).hexdigest()

    def stamp(self) -> str | None:
        """Return all sources' stamps, if each has one."""
        stamps = [source.stamp() for source in self.sources]
        return None if None in stamps else "; ".join(map(str, stamps))


@dataclass(frozen=True)
class TextStats:
    """Results of a pass over a whole text."""

    source_sha256: Annotated[str, Field(alias="source_sum")]
    """The source's, then."""
    text_sha256: Annotated[str, Field(alias="text_sum")]
    """SHA-256 of the pairs with text on both sides: all sources' lines, then all targets'."""
    pairs: int
    """Pairs with text on both sides."""
    blank: int
    """Pairs of which a side is nothing but whitespace."""
    stamp: str | None = None
    """The source's, if it was known before the source was hashed."""
    parts: list[int] = field(default_factory=list)
    """Pairs with text on both sides of each of several sources."""


@dataclass(frozen=True)
class StreamedText:
    """The pairs of a source that have text on both sides, checked once and read on demand."""

    source: PairSource
    survey: TextStats

    @classmethod
    def of(cls, source: PairSource, known: TextStats | None = None) -> "StreamedText":
        """Check ``source`` from one end to the other, unless that was done before.

        Args:
            source: the text, blank pairs included.
            known: an earlier session's survey, perhaps of other text.

        Raises:
            CorpusError: a side cannot be read or is not UTF-8, or the sides are not of one length.
        """
        if known is not None and len(known.parts or [0]) != len(_parts(source)):
            known = None  # of an earlier version
        stamp = source.stamp()
        if known is not None and stamp is not None and known.stamp == stamp:
            return cls(source, known)
        source_sha256 = source.source_sha256()
        if known is not None and known.source_sha256 == source_sha256:
            return cls(source, replace(known, stamp=stamp))
        return cls(source, replace(_survey_text(source, source_sha256), stamp=stamp))

    def __len__(self) -> int:
        return self.survey.pairs

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the pairs, in order.

        Raises:
            CorpusError: there are more or fewer of them than there were.
        """
        count = 0
        for src, tgt in self.source.pairs():
            if _has_text(src, tgt):
                count += 1
                yield src, tgt
        if count != len(self):
            raise CorpusError(
                f"split 'train': it had {len(self)} pairs and now has {count}; somebody changes "
                "the files, so start again when they are done"
            )

    @property
    def src(self) -> "StreamedLines":
        """Source side."""
        return StreamedLines(lambda: (src for src, _ in self.pairs()), len(self))

    @property
    def tgt(self) -> "StreamedLines":
        """Target side."""
        return StreamedLines(lambda: (tgt for _, tgt in self.pairs()), len(self))

    def check_unchanged(self) -> None:
        """Make sure that the text is still the one that was checked.

        Raises:
            CorpusError: it is not.
        """
        if self.source.source_sha256() != self.survey.source_sha256:
            raise CorpusError(
                "split 'train': its files have changed while they were read; start again when "
                "nobody writes to them"
            )


@dataclass(frozen=True)
class StreamedLines:
    """Lines that are read from the start by each iteration.

    Attributes:
        read: starts from the first line.
        count: the number of lines.
    """

    read: Callable[[], Iterator[str]]
    count: int

    def __iter__(self) -> Iterator[str]:
        return self.read()

    def __len__(self) -> int:
        return self.count


def _survey_text(source: PairSource, source_sha256: str) -> TextStats:
    digest = hashlib.sha256()
    parts, total = [], 0
    for part in _parts(source):
        kept = 0
        for src, tgt in part.pairs():
            total += 1
            if _has_text(src, tgt):
                kept += 1
                digest.update(src.encode() + b"\n")
        parts.append(kept)
    for src, tgt in source.pairs():
        if _has_text(src, tgt):
            digest.update(tgt.encode() + b"\n")
    kept = sum(parts)
    return TextStats(
        source_sha256, digest.hexdigest(), kept, total - kept, parts=parts if parts[1:] else []
    )


def _parts(source: PairSource) -> tuple[PairSource, ...]:
    return source.sources if isinstance(source, ConcatenatedSources) else (source,)


def _has_text(src: str, tgt: str) -> bool:
    return bool(src.strip()) and bool(tgt.strip())
