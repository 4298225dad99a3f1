"""Statistics of a run: its training text, its tokenizers, and what it translates well."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from transformer_cli.data.store import open_store, read_stats
from transformer_cli.data.token_arrays import PERCENTILES, percentiles
from transformer_cli.metrics import METRICS, USUAL, Metrics
from transformer_cli.report.examples import split_words
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.tokenizer import fingerprint

# The fewest source tokens of each bucket of sentences, and the fewest occurrences in the training
# text of each bucket of words; the last one has no end.
LENGTHS = (1, 6, 11, 16, 21, 31, 41, 61)
FREQUENCIES = (0, 1, 10, 100, 1000)


@dataclass(frozen=True)
class SideStatistics:
    """One side of the training text."""

    lines: int
    tokens: int
    lengths: dict[int, int]  # by percentile: tokens of a line
    counts: np.ndarray  # number of lines of 0, 1, 2, … tokens


def read_trained(run: RunDirectory) -> list[SideStatistics] | None:
    """Return both sides of a run's training text; None where its store of it is not there."""
    stats = read_stats(run.encoded)
    if stats is None:
        return None
    sha256 = fingerprint(run.tokenizer)
    store = open_store(run.encoded, stats.text_sha256, sha256, is_verified=True)
    if not store:
        return None
    sides = []
    num_tokens = store.record.src_tokens, store.record.tgt_tokens
    for tokens, counts in zip(num_tokens, store.count_lengths(), strict=True):
        lengths = dict(zip(PERCENTILES, percentiles(counts, PERCENTILES), strict=True))
        sides.append(SideStatistics(len(store), tokens, lengths, counts))
    return sides


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
    words: int  # occurrences in the references
    found: int  # those that the translation of the same sentence has too, each counted once

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
    places = np.digitize(np.maximum(1, lengths), LENGTHS) - 1
    buckets = []
    for place, label in enumerate(_labels(LENGTHS)):
        numbers = np.flatnonzero(places == place).tolist()
        if numbers:
            own, own_references = ([side[n] for n in numbers] for side in (hypotheses, references))
            scores = {
                name: metric.corpus_score(own, [own_references]).score
                for name, metric in scored.items()
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
        for word, count in of_reference.items():
            label = labels[bisect_right(FREQUENCIES, seen.get(word, 0)) - 1]
            in_references[label] += count
            found_again[label] += of_both[word]
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
