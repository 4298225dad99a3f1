"""Example translations: best, worst and random ones, with differences from the reference."""

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import NamedTuple

from transformer_cli.data.corpus import ParallelText
from transformer_cli.extensions.verbatim.characters import MARKS, SPACELESS

SHOWN = 8  # translations of each kind
SEED = 1  # for random choices
_WORD = re.compile(rf"[{SPACELESS}][{MARKS}]*+|(?:(?![{SPACELESS}])[\w{MARKS}])+")
_PART = re.compile(rf"{_WORD.pattern}|\s+|.", re.DOTALL)


class Span(NamedTuple):
    """A part of a translation or reference, and whether it is missing from the other text."""

    text: str
    differs: bool


@dataclass(frozen=True)
class Example:
    """A translation, with its source sentence and its reference."""

    line: int  # in the split, from 1
    chrf: float
    src: str
    translation: list[Span]
    reference: list[Span]


def choose_examples(text: ParallelText, hypotheses: Sequence[str]) -> dict[str, list[Example]]:
    """Return a dict of the 'worst' and 'best' translations, by chrF, and some 'random' ones."""
    scores = sentence_chrf(hypotheses, text.tgt)

    def example(n: int) -> Example:
        return Example(1 + n, scores[n], text.src[n], *mark_differences(hypotheses[n], text.tgt[n]))

    chosen = choose_sentences(scores, text.tgt)
    return {kind: [example(number) for number in numbers] for kind, numbers in chosen.items()}


def choose_sentences(
    scores: Sequence[float], references: Sequence[str], shown: int = SHOWN
) -> dict[str, list[int]]:
    """Return a dict of the indices of the 'worst' and 'best' sentences and of 'random' ones.

    If scores are equal, longer sentences come first, because they are harder.
    """
    numbers = range(len(scores))
    from_worst = sorted(numbers, key=lambda n: (scores[n], -len(references[n]), n))
    from_best = sorted(numbers, key=lambda n: (-scores[n], -len(references[n]), n))
    drawn = random.Random(SEED).sample(numbers, min(shown, len(scores)))
    return {"worst": from_worst[:shown], "best": from_best[:shown], "random": sorted(drawn)}


def mark_differences(first: str, second: str) -> tuple[list[Span], list[Span]]:
    """Compare two texts word by word; return each as spans of common and of different words."""
    cut = [split_parts(text) for text in (first, second)]
    # Ignore white space; otherwise all texts would have much in common.
    solid = [[n for n, part in enumerate(side) if not part.isspace()] for side in cut]
    one, other = ([side[n] for n in of] for side, of in zip(cut, solid, strict=True))
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    common: tuple[set[int], set[int]] = (set(), set())
    for block in matcher.get_matching_blocks():
        common[0].update(solid[0][block.a : block.a + block.size])
        common[1].update(solid[1][block.b : block.b + block.size])
    return _spans(cut[0], common[0]), _spans(cut[1], common[1])


def _spans(cut: list[str], common: set[int]) -> list[Span]:
    def differs(number: int) -> bool:
        if not cut[number].isspace():
            return number not in common
        # Also mark white space between two different words.
        return 0 < number < len(cut) - 1 and not {number - 1, number + 1} & common

    return [
        Span("".join(cut[number] for number in run), is_different)
        for is_different, run in groupby(range(len(cut)), key=differs)
    ]


def split_parts(text: str) -> list[str]:
    """Split ``text`` into words, white space and other single characters; nothing is lost."""
    return _PART.findall(text)


def sentence_chrf(
    hypotheses: Iterable[str], references: Iterable[str], lowercase: bool = False
) -> list[float]:
    """Return each sentence's chrF, 0 to 100, against its own reference."""
    from sacrebleu.metrics.chrf import CHRF

    chrf = CHRF(lowercase=lowercase)
    pairs = zip(hypotheses, references, strict=True)
    return [chrf.sentence_score(hypothesis, [reference]).score for hypothesis, reference in pairs]
