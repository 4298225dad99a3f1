"""The sentences that two groups of runs translate most differently well."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from transformer_cli.report.examples import Span, mark_differences, sentence_scores

SHOWN_EACH = 6
"""Sentences shown of each direction."""


@dataclass(frozen=True)
class TwoTranslations:
    """A sentence, and a translation of each of two groups."""

    line: int
    """Of the split, from 1."""
    src: str
    reference: str
    scores: tuple[float, float]
    """Mean chrF of each group's translations."""
    translations: tuple[list[Span], list[Span]]
    """Of the run whose chrF is the median; what the reference lacks is marked."""


def choose_differing(
    first: Sequence[Sequence[str]],
    second: Sequence[Sequence[str]],
    src: Sequence[str],
    references: Sequence[str],
    shown: int = SHOWN_EACH,
) -> tuple[list[TwoTranslations], list[TwoTranslations]]:
    """Return the sentences that one group translates better, and those that the other does.

    Args:
        first: one group's translations, by run and sentence.
        second: the other's.
        src: source lines.
        references: as many.
        shown: how many of each, at most; those with the largest difference of mean chrF.
    """
    scores = [
        np.array([sentence_scores(each, references) for each in group]) for group in (first, second)
    ]
    means = [group.mean(axis=0) for group in scores]
    difference = means[0] - means[1]

    def make(line: int) -> TwoTranslations:
        chosen = [
            group[_median(own[:, line])][line]
            for group, own in zip((first, second), scores, strict=True)
        ]
        one, other = (mark_differences(each, references[line])[0] for each in chosen)
        mean = (float(means[0][line]), float(means[1][line]))
        return TwoTranslations(1 + line, src[line], references[line], mean, (one, other))

    order = np.argsort(-difference, kind="stable")
    better = [make(line) for line in order[:shown].tolist() if difference[line] > 0]
    worse = [make(line) for line in order[::-1][:shown].tolist() if difference[line] < 0]
    return better, worse


def _median(scores: np.ndarray) -> int:
    """Return the index of the median score, of two the lower one."""
    return int(np.argsort(scores, kind="stable")[(len(scores) - 1) // 2])
