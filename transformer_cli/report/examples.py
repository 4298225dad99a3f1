"""Example translations: the best, the worst and random ones, differences marked."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import NamedTuple

from transformer_cli.report.word_split import split_pieces

SHOWN = 8
"""Translations of each kind."""
SEED = 1
"""Of what is chosen at random."""


class Span(NamedTuple):
    """A part of a text, and whether the other text lacks it."""

    text: str
    differs: bool


@dataclass(frozen=True)
class Example:
    """A translation beside its source and its reference."""

    line: int
    """Of the split, from 1."""
    chrf: float
    src: str
    translation: list[Span]
    reference: list[Span]


def sentence_scores(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """Return each sentence's chrF, 0 to 100."""
    from sacrebleu.metrics.chrf import CHRF

    chrf = CHRF()
    return [
        chrf.sentence_score(hypothesis, [reference]).score
        for hypothesis, reference in zip(hypotheses, references, strict=True)
    ]


def choose_sentences(
    scores: Sequence[float], references: Sequence[str], shown: int = SHOWN
) -> dict[str, list[int]]:
    """Return the indices of the 'worst', 'best' and 'random' sentences.

    Of sentences that are equally good, the longer ones are shown: it is more to get right.

    Args:
        scores: each sentence's.
        references: as many.
        shown: how many of each kind, at most.
    """
    order = sorted(range(len(scores)), key=lambda n: (scores[n], -len(references[n]), n))
    from_best = sorted(order, key=lambda n: (-scores[n], -len(references[n]), n))
    drawn = random.Random(SEED).sample(range(len(scores)), min(shown, len(scores)))
    return {"worst": order[:shown], "best": from_best[:shown], "random": sorted(drawn)}


def make_example(number: int, score: float, src: str, hypothesis: str, reference: str) -> Example:
    """Return a sentence, numbered from 0, with differences marked."""
    return Example(1 + number, score, src, *mark_differences(hypothesis, reference))


def mark_differences(first: str, second: str) -> tuple[list[Span], list[Span]]:
    """Return both texts as spans of common and different words (a word diff)."""
    cut = [split_pieces(text) for text in (first, second)]
    # White space is no word, or all texts would have much in common.
    solid = [[n for n, piece in enumerate(side) if not piece.isspace()] for side in cut]
    one, other = ([side[n] for n in of] for side, of in zip(cut, solid, strict=True))
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    common: tuple[set[int], set[int]] = (set(), set())
    for block in matcher.get_matching_blocks():
        common[0].update(solid[0][block.a : block.a + block.size])
        common[1].update(solid[1][block.b : block.b + block.size])
    first_spans, second_spans = map(_spans, cut, common)
    return first_spans, second_spans


def _spans(cut: list[str], common: set[int]) -> list[Span]:
    def differs(number: int) -> bool:
        if not cut[number].isspace():
            return number not in common
        # Between two words that differ, so does what parts them.
        return 0 < number < len(cut) - 1 and not {number - 1, number + 1} & common

    return [
        Span("".join(cut[number] for number in run), is_different)
        for is_different, run in groupby(range(len(cut)), key=differs)
    ]
