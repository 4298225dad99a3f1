"""Read corrections, and leave out those that are most likely wrong."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from transformer_cli.base.errors import MissingExtraError, UsageError
from transformer_cli.base.messages import show_progress
from transformer_cli.config.data_schema import DataSection
from transformer_cli.extensions.checks.rules import (
    FilterSettings,
    PairFilter,
    Pairs,
    build_filters,
)
from transformer_cli.extensions.corpora.opening import open_source, source_of_file
from transformer_cli.extensions.growing.memory import fold
from transformer_cli.extensions.revision.doubts import DoubtFinder
from transformer_cli.extensions.revision.foreign_scripts import are_close

_RULES = ("encoding", "script", "markup")


@dataclass(frozen=True)
class Corrections:
    """Pairs of a source and its translation, from files that the user gave.

    Attributes:
        pairs: the translations, keyed by source; of several translations of one source, the last.
        faults: for each rule that a pair breaks, the sources of those pairs.
        total: the number of pairs in the files.
    """

    pairs: dict[str, str]
    faults: dict[str, list[str]]
    total: int

    def describe_faults(self) -> Iterator[str]:
        """Yield a message for each rule that pairs break, with an example."""
        for rule, sources in self.faults.items():
            yield f"{len(sources):,} of {self.total:,} pairs left out: {rule}, e.g. {sources[0]!r}"


def read_corrections(files: Sequence[Path], data: DataSection) -> Corrections:
    """Read all pairs in TMX, PO and TSV files, and leave out faulty ones.

    Raises:
        UsageError: a file has an unknown format, or no pair is left. CorpusError: it is damaged.
    """
    sources = [source_of_file(path) for path in files]
    pairs: list[tuple[str, str]] = []
    for source in sources:
        reader = open_source(source, data.src_lang, data.tgt_lang)
        read = show_progress(reader.pairs(), source.name, " pairs")
        pairs += ((fold(src), " ".join(tgt.split())) for src, tgt in read)
    kept: dict[str, str] = {}
    faults: dict[str, list[str]] = {}
    for (src, tgt), fault in zip(pairs, find_faults(pairs, data), strict=True):
        if fault:
            faults.setdefault(fault, []).append(src)
        else:
            kept[src] = tgt
    corrections = Corrections(kept, faults, len(pairs))
    if not kept:
        said = "; ".join(corrections.describe_faults()) or "the files have no pairs"
        raise UsageError(f"--add: no corrections to learn from: {said}")
    return corrections


def find_faults(pairs: Pairs, data: DataSection) -> list[str]:
    """Return for each pair the first rule that it breaks, or '' if it breaks none."""
    settings = FilterSettings.of(data)
    filters = build_filters(_RULES, settings)
    with suppress(MissingExtraError):
        filters += build_filters(["language"], settings)[1:]  # the first one is ``blank``
    rules = [each for each in filters if isinstance(each, PairFilter)]
    # A wrong translation by a person looks like a wrong one by a model.
    finder = DoubtFinder(data.tgt_lang, may_copy=are_close(data.src_lang, data.tgt_lang))

    def find(src: str, tgt: str) -> str:
        for rule in rules:
            if rule.rejects(src, tgt):
                return rule.summary
        doubt = finder.find(src, tgt)
        return f"the translation is doubtful: {doubt}" if doubt else ""

    return [find(*pair) for pair in pairs]
