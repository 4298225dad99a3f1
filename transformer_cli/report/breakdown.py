"""Scores by sentence length, and recall by word frequency."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from transformer_cli.evaluation.metrics import USUAL, Metrics
from transformer_cli.report.word_split import split_words

LENGTHS = (1, 6, 11, 16, 21, 31, 41, 61)
"""The fewest source tokens of each bucket of lengths; the last one has no end."""
FREQUENCIES = (0, 1, 10, 100, 1000)
"""The fewest occurrences in the training text of each bucket of words."""


@dataclass(frozen=True)
class LengthBucket:
    """Sentences of similar length, and their scores."""

    label: str
    sentences: int
    bleu: float
    chrf: float


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
    """Return the scores of the sentences of each bucket of ``LENGTHS`` that has any.

    Args:
        lengths: each source's tokens, without its EOS; empty ones count as of one token.
        hypotheses: the translations.
        references: as many.
        metrics: those of the target language.
    """
    by_name = metrics.by_name()
    bleu, chrf = by_name["bleu"], by_name["chrf"]
    found = []
    for label, least, below in _buckets(LENGTHS):
        inside = [
            number
            for number, length in enumerate(lengths)
            if least <= max(1, length) and (below is None or max(1, length) < below)
        ]
        if not inside:
            continue
        theirs = [hypotheses[number] for number in inside]
        wanted = [[references[number] for number in inside]]
        found.append(
            LengthBucket(
                label,
                len(inside),
                bleu.corpus_score(theirs, wanted).score,
                chrf.corpus_score(theirs, wanted).score,
            )
        )
    return found


def score_by_rarity(
    seen: Mapping[str, int], hypotheses: Sequence[str], references: Sequence[str]
) -> list[RarityBucket]:
    """Return the recall of the references' words, by their frequency in the training text.

    A word that a reference has twice and its translation once is found once.

    Args:
        seen: how often the training text's target side has each word; see ``count_words``.
        hypotheses: the translations.
        references: as many.
    """
    wanted: Counter[str] = Counter()
    met: Counter[str] = Counter()
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        of_reference = Counter(split_words(reference))
        wanted += of_reference
        met += of_reference & Counter(split_words(hypothesis))
    found = []
    for label, least, below in _buckets(FREQUENCIES):
        inside = [
            word
            for word in wanted
            if least <= seen.get(word, 0) and (below is None or seen.get(word, 0) < below)
        ]
        if inside:
            total, hits = (sum(counts[word] for word in inside) for counts in (wanted, met))
            found.append(RarityBucket("never" if below == 1 else label, total, hits))
    return found


def count_words(lines: Iterable[str], references: Sequence[str]) -> Counter[str]:
    """Count each word of the references in ``lines``; other words are not counted."""
    asked = {word for reference in references for word in split_words(reference)}
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(word for word in split_words(line) if word in asked)
    return counts


def _buckets(starts: Sequence[int]) -> list[tuple[str, int, int | None]]:
    """Return each bucket's label, its lower bound and the next one's."""
    inner: list[tuple[str, int, int | None]] = [
        (f"{least:,}–{below - 1:,}", least, below) for least, below in pairwise(starts)
    ]
    return [*inner, (f"{starts[-1]:,}+", starts[-1], None)]
