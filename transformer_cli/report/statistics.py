"""Statistics of a run: its training text, its tokenizers, and what it translates well."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from transformer_cli.data.store import EncodedStore, open_store, read_stats
from transformer_cli.data.token_arrays import PERCENTILES, EncodedText, percentiles
from transformer_cli.metrics import METRICS, USUAL, Metrics
from transformer_cli.report.charts import Chart, Series
from transformer_cli.report.examples import split_words
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.protocol import Tokenizers
from transformer_cli.text.tokenizer import fingerprint
from transformer_cli.text.vocabulary import UNK_ID


@dataclass(frozen=True)
class SideStatistics:
    """One side of the training text."""

    lines: int
    tokens: int
    lengths: dict[int, int]
    """By percentile: tokens of a line."""
    counts: np.ndarray
    """Number of lines of 0, 1, 2, … tokens."""


@dataclass(frozen=True)
class Statistics:
    """Statistics of the training text and the split."""

    src: SideStatistics | None
    """None, as is the target's, where the run's store of it is not there."""
    tgt: SideStatistics | None
    sizes: tuple[int, int]
    """Entries of the vocabularies."""
    shared: bool
    """Whether the two are one."""
    types: tuple[int, int] | None
    """Different words of the training text; None for subwords."""
    unknown: tuple[float, float]
    """Share of the split's tokens that the vocabulary lacks."""


def compute_statistics(run: RunDirectory, tokenizers: Tokenizers, split: EncodedText) -> Statistics:
    """Return statistics of the run's training text, and of the split that it is scored on."""
    store = _store(run)
    src = tgt = None
    if store is not None and len(store):
        counts = store.count_lengths()
        src = _side(store, store.record.src_tokens, counts.src)
        tgt = _side(store, store.record.tgt_tokens, counts.tgt)
    return Statistics(
        src,
        tgt,
        (tokenizers.src.size, tokenizers.tgt.size),
        tokenizers.src is tokenizers.tgt,
        tokenizers.types,
        (_unknown(split.src.ids), _unknown(split.tgt.ids)),
    )


def make_length_chart(statistics: Statistics, languages: tuple[str, str]) -> list[Chart]:
    """Return a chart of training lines by length but for the longest hundredth, if any are."""
    if statistics.src is None or statistics.tgt is None:
        return []
    series = []
    for side, role, language in (
        (statistics.src, "src", f"source ({languages[0]})"),
        (statistics.tgt, "tgt", f"target ({languages[1]})"),
    ):
        end = side.lengths[99] + 1
        series.append(Series(language, role, list(range(end)), side.counts[:end].tolist()))
    medians = " and ".join(f"{side.lengths[50]}" for side in (statistics.src, statistics.tgt))
    chart = Chart(
        "lengths",
        "Length of training lines",
        f"Lines by length: the middle ones have {medians} tokens, source and target.",
        "tokens in a line",
        "lines",
        series,
        kind="area",
    )
    return [chart]


def _store(run: RunDirectory) -> EncodedStore | None:
    stats = read_stats(run.encoded)
    if stats is None:
        return None
    return open_store(run.encoded, stats.text_sha256, fingerprint(run.tokenizer), is_verified=True)


def _side(store: EncodedStore, tokens: int, counts: np.ndarray) -> SideStatistics:
    lengths = dict(zip(PERCENTILES, percentiles(counts, PERCENTILES), strict=True))
    return SideStatistics(len(store), tokens, lengths, counts)


def _unknown(ids: np.ndarray) -> float:
    return float((ids == UNK_ID).mean()) if len(ids) else 0.0


# --- where the model is good, and where not -------------------------------------------------------

LENGTHS = (1, 6, 11, 16, 21, 31, 41, 61)
"""The fewest source tokens of each bucket of lengths; the last one has no end."""
FREQUENCIES = (0, 1, 10, 100, 1000)
"""The fewest occurrences in the training text of each bucket of words."""


@dataclass(frozen=True)
class LengthBucket:
    """Sentences of similar length, and their scores by the metric's name."""

    label: str
    sentences: int
    scores: dict[str, float]


@dataclass(frozen=True)
class RarityBucket:
    """Words that the training text has about as often, and how many were found again."""

    label: str
    words: int
    """Occurrences in the references."""
    found: int
    """Those that the translation of the same sentence has too, each counted once."""

    @property
    def recall(self) -> float:
        """Share that was found, in per cent."""
        return 100 * self.found / self.words


def score_by_length(
    lengths: Sequence[int],
    hypotheses: Sequence[str],
    references: Sequence[str],
    metrics: Metrics = USUAL,
) -> list[LengthBucket]:
    """Return the scores, but lowercased ones, of the sentences of each bucket that has any.

    Lengths are in source tokens without EOS; empty sentences count as of one token.
    """
    scored = {name: m for name, m in metrics.by_name().items() if not METRICS[name].needs_case}
    inside: dict[str, list[int]] = {label: [] for label in _labels(LENGTHS)}
    labels = list(inside)
    for number, length in enumerate(lengths):
        inside[labels[bisect_right(LENGTHS, max(1, length)) - 1]].append(number)
    buckets = []
    for label, numbers in inside.items():
        if numbers:
            theirs = [hypotheses[number] for number in numbers]
            own_references = [[references[number] for number in numbers]]
            scores = {
                name: m.corpus_score(theirs, own_references).score for name, m in scored.items()
            }
            buckets.append(LengthBucket(label, len(numbers), scores))
    return buckets


def score_by_rarity(
    seen: Mapping[str, int], hypotheses: Sequence[str], references: Sequence[str]
) -> list[RarityBucket]:
    """Return the recall of the references' words, by how often the training text has them.

    A word that a reference has twice and its translation once is found once.
    """
    labels = ["never", *_labels(FREQUENCIES)[1:]]
    in_references, found_again = Counter[str](), Counter[str]()
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        of_reference = Counter(split_words(reference))
        of_both = of_reference & Counter(split_words(hypothesis))
        for totals, counts in ((in_references, of_reference), (found_again, of_both)):
            for word, count in counts.items():
                totals[labels[bisect_right(FREQUENCIES, seen.get(word, 0)) - 1]] += count
    return [
        RarityBucket(label, in_references[label], found_again[label])
        for label in labels
        if in_references[label]
    ]


def count_words(lines: Iterable[str], references: Sequence[str]) -> Counter[str]:
    """Count each word of the references in ``lines``; other words are not counted."""
    counted = {word for reference in references for word in split_words(reference)}
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(word for word in split_words(line) if word in counted)
    return counts


def _labels(starts: Sequence[int]) -> list[str]:
    inner = [f"{start:,}–{end - 1:,}" for start, end in pairwise(starts)]
    return [*inner, f"{starts[-1]:,}+"]


def make_breakdown_charts(
    lengths: Sequence[LengthBucket], rarity: Sequence[RarityBucket] | None
) -> list[Chart]:
    """Return bars of the scores by length and of the recall by rarity."""
    labels = [bucket.label for bucket in lengths]
    notes = [f"{bucket.sentences:,} sentences" for bucket in lengths]
    names = list(lengths[0].scores)[:2]
    scores = " and ".join(METRICS[name].label for name in names)
    by_length = Chart(
        "by-length",
        "Scores by length of the source",
        f"{scores} by source tokens; the table has the numbers.",
        "source tokens",
        "score",
        [
            Series(
                METRICS[name].label, role, labels, [each.scores[name] for each in lengths], notes
            )
            for name, role in zip(names, ("val", "train"), strict=True)
        ],
        kind="bars",
    )
    if not rarity:
        return [by_length]
    recall = Series(
        "recall",
        "val",
        [bucket.label for bucket in rarity],
        [bucket.recall for bucket in rarity],
        [f"{bucket.found:,} of {bucket.words:,}" for bucket in rarity],
    )
    by_rarity = Chart(
        "by-rarity",
        "Reference words found in the translation",
        "Recall by how often the training text has a word; the table has the numbers.",
        "times in the training text",
        "per cent found",
        [recall],
        kind="bars",
    )
    return [by_length, by_rarity]
