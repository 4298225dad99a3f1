"""Clean a corpus: write what its filters keep and what they do not, and say how much that is."""

from collections import Counter
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from transformer_cli.config.data_schema import CorpusData
from transformer_cli.data import prepared
from transformer_cli.data.corpus import PairProgress
from transformer_cli.data.filters.rules import build_filters
from transformer_cli.data.preparing import write_corpus
from transformer_cli.data.sorting import DROPPED, HELD_OUT, DroppedPair
from transformer_cli.files import remove_leftovers


@dataclass(frozen=True)
class Reason:
    """A filter or ``HELD_OUT``, and the pairs that it removes."""

    name: str
    summary: str
    by_source: list[int]
    """Pairs of each source."""
    examples: list[DroppedPair]
    """A sample of them, in their order."""

    @property
    def count(self) -> int:
        """Pairs of all sources."""
        return sum(self.by_source)


@dataclass(frozen=True)
class Cleaning:
    """What became of the pairs of a corpus."""

    record: prepared.CorpusRecord
    reasons: list[Reason]
    """In the order in which they are looked for; those that removed nothing are there too."""

    @property
    def pairs(self) -> int:
        """All pairs that were read."""
        return sum(source.pairs for source in self.record.sources)

    @property
    def bad(self) -> int:
        """Units that could not be read."""
        return sum(source.bad for source in self.record.sources)

    @property
    def kept(self) -> Counter[str]:
        """Pairs that are left, by split."""
        return sum((Counter(source.kept) for source in self.record.sources), Counter())


def clean_corpus(
    data: CorpusData, directory: Path, progress: PairProgress, executor: Executor | None = None
) -> Cleaning:
    """Write the pairs that are kept and those that are not into the new directory ``directory``.

    See ``prepare_corpus``.
    """
    examples: list[DroppedPair] = []
    remove_leftovers(directory.absolute().parent, others=[directory.name])

    def write(made: Path) -> prepared.CorpusRecord:
        head = f"pair\tsource\tfilter\t{data.src_lang}\t{data.tgt_lang}\n"
        (made / DROPPED).write_text(head, encoding="utf-8", newline="")
        record = write_corpus(data, made, progress, executor, examples)
        # The same text gives the same bytes, whenever it was written.
        return record.model_copy(update={"mtime_key": None})

    record = prepared.corpus_artifact(directory).make(write)
    reasons = [
        Reason(
            name,
            summary,
            [source.removed.get(name, 0) for source in record.sources],
            [pair for pair in examples if pair.reason == name],
        )
        for name, summary in _summarize_reasons(data).items()
    ]
    return Cleaning(record, reasons)


def is_written(name: str) -> bool:
    """Return whether ``clean_corpus`` may write a file of this name, whatever its case."""
    return name.lower() in (prepared.RECORD, DROPPED) or name.lower().endswith((".src", ".tgt"))


def _summarize_reasons(data: CorpusData) -> dict[str, str]:
    names = {*data.filters, *(name for source in data.sources for name in source.filters or [])}
    filters = build_filters(names, data.src_lang, data.tgt_lang)
    summaries: dict[str, str] = {filter_.name: filter_.summary for filter_ in filters}
    if data.split is not None:
        summaries[HELD_OUT] = "a side occurs in val or test, which were drawn"
    return summaries
