"""A corpus without what its filters take, and what that is."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transformer_cli.config.data_schema import CorpusData
from transformer_cli.data.filters.rules import build_filters
from transformer_cli.data.prepared import RECORD, CorpusRecord
from transformer_cli.data.preparing import HELD_OUT, DroppedPair, write_corpus
from transformer_cli.data.streamed import PairProgress
from transformer_cli.files import remove_leftovers, whole_directory

DROPPED = "dropped.tsv"
_EXAMPLES = 20


@dataclass(frozen=True)
class Reason:
    """A filter or ``HELD_OUT``, and the pairs that it takes."""

    name: str
    summary: str
    by_source: list[int]
    """Pairs of each source."""
    examples: Sequence[DroppedPair]
    """A sample of them, in their order."""

    @property
    def count(self) -> int:
        """Pairs of all sources."""
        return sum(self.by_source)


@dataclass(frozen=True)
class Cleaning:
    """What became of the pairs of a corpus."""

    record: CorpusRecord
    reasons: list[Reason]
    """In the order in which they are looked for; those that took nothing are there too."""

    @property
    def pairs(self) -> int:
        """All pairs that were read."""
        return sum(source.pairs for source in self.record.sources)

    @property
    def bad(self) -> int:
        """Units that could not be read."""
        return sum(source.bad for source in self.record.sources)

    @property
    def kept(self) -> dict[str, int]:
        """Pairs that are left, by split."""
        kept: Counter[str] = Counter()
        for source in self.record.sources:
            kept.update(source.kept)
        return dict(kept)


def clean_corpus(data: CorpusData, directory: Path, progress: PairProgress) -> Cleaning:
    """Write the pairs that are kept and those that are not into the new directory ``directory``.

    Raises:
        CorpusError: a source cannot be read, or too few pairs are left.
        MissingExtraError: a format or a filter needs a package that is not installed.
        OSError: the files cannot be written.
    """
    sample = _Sample()
    remove_leftovers(directory.absolute().parent, others=[directory.name])
    with (
        whole_directory(directory) as temporary,
        (temporary / DROPPED).open("w", encoding="utf-8", newline="") as file,
    ):
        file.write(f"pair\tsource\tfilter\t{data.src_lang}\t{data.tgt_lang}\n")

        def drop(pair: DroppedPair) -> None:
            sample.add(pair)
            cells = (str(pair.number), pair.source, pair.reason, pair.src, pair.tgt)
            file.write("\t".join(cell.replace("\t", " ") for cell in cells) + "\n")

        record = write_corpus(data, temporary, progress, drop)
    return Cleaning(record, _reasons(data, record, sample))


def is_written(name: str) -> bool:
    """Return whether ``clean_corpus`` may write a file of this name, whatever its case."""
    return name.lower() in (RECORD, DROPPED) or name.lower().endswith((".src", ".tgt"))


def _reasons(data: CorpusData, record: CorpusRecord, sample: "_Sample") -> list[Reason]:
    names = {*data.filters, *(name for source in data.sources for name in source.filters or [])}
    filters = build_filters(names, data.src_lang, data.tgt_lang)
    summaries: dict[str, str] = {each.name: each.summary for each in filters}
    if data.split is not None:
        summaries[HELD_OUT] = "a side occurs in val or test, which were drawn"
    return [
        Reason(
            name,
            summary,
            [source.taken.get(name, 0) for source in record.sources],
            sample.examples(name),
        )
        for name, summary in summaries.items()
    ]


class _Sample:
    """An even sample of the pairs of each reason, in constant memory."""

    def __init__(self) -> None:
        self._draw = random.Random(1)
        self._seen: Counter[str] = Counter()
        self._drawn: dict[str, list[DroppedPair]] = {}

    def add(self, pair: DroppedPair) -> None:
        drawn = self._drawn.setdefault(pair.reason, [])
        self._seen[pair.reason] += 1
        if len(drawn) < _EXAMPLES:
            drawn.append(pair)
        elif (place := self._draw.randrange(self._seen[pair.reason])) < _EXAMPLES:
            drawn[place] = pair

    def examples(self, reason: str) -> list[DroppedPair]:
        return sorted(self._drawn.get(reason, []), key=lambda pair: pair.number)
