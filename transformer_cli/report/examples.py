"""Example translations: the best, the worst and random ones, differences marked."""

import random
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from itertools import groupby
from typing import NamedTuple

import numpy as np

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

    Translations are by run and sentence; shown are the largest differences of mean chrF.
    """
    scores = [
        np.array([sentence_scores(translations, references) for translations in group])
        for group in (first, second)
    ]
    means = [group.mean(axis=0) for group in scores]
    difference = means[0] - means[1]

    def make(line: int) -> TwoTranslations:
        chosen = [
            group[_median(own[:, line])][line]
            for group, own in zip((first, second), scores, strict=True)
        ]
        one, other = (
            mark_differences(translations, references[line])[0] for translations in chosen
        )
        mean = (float(means[0][line]), float(means[1][line]))
        return TwoTranslations(1 + line, src[line], references[line], mean, (one, other))

    order = np.argsort(-difference, kind="stable")
    better = [make(line) for line in order[:shown].tolist() if difference[line] > 0]
    worse = [make(line) for line in order[::-1][:shown].tolist() if difference[line] < 0]
    return better, worse


def _median(scores: np.ndarray) -> int:
    """Return the index of the median score, of two the lower one."""
    return int(np.argsort(scores, kind="stable")[(len(scores) - 1) // 2])


# Scripts that set no spaces: each character counts as a word.
_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"


def split_words(text: str) -> list[str]:
    """Return the words of ``text`` in lower case, without punctuation."""
    return _word_pattern().findall(text.lower())


def split_pieces(text: str) -> list[str]:
    """Split ``text`` into words, white space and single characters, which make it up again."""
    return _piece_pattern().findall(text)


@cache
def _word() -> str:
    # Python's \w lacks the marks that write vowels in Indian scripts, say.
    codes = range(0x300, 0xFFFF)
    marks = "".join(chr(code) for code in codes if unicodedata.category(chr(code))[0] == "M")
    return rf"[{_IDEOGRAPHS}]|(?:(?![{_IDEOGRAPHS}])[\w{marks}])+"


@cache
def _word_pattern() -> re.Pattern[str]:
    return re.compile(_word())


@cache
def _piece_pattern() -> re.Pattern[str]:
    return re.compile(rf"{_word()}|\s+|.", re.DOTALL)
