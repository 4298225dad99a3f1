"""Simulated experiments: how often are groups with no true difference significantly different?

Run as a program, it prints the whole table for docs/extensions/experiments.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from transformer_cli.extensions.experiments.seed_statistics import (
    GroupDifference,
    compare_means,
    score_sentences,
)

TOY = Path(__file__).parents[3] / "data" / "toy" / "test.en"


@dataclass(frozen=True)
class World:
    """The distribution of experiments; variances are in units of the interaction's variance."""

    seeds: tuple[int, int] = (3, 3)
    sentences: int = 100
    seed_variance: float = 1.0
    """Of a run's score, over that of the mean of its sentences' interaction with the seed."""
    group_variance: float = 0.0
    """Of sentences that a group translates better or worse, whatever the seed."""
    ratio: float = 1.0
    """Of the second group's seed variance to the first's."""
    is_skewed: bool = False
    """Whether sentences' points are skewed and heavy-tailed, as those of BLEU are."""

    def draw(self, rng: np.random.Generator, effect: float = 0.0) -> GroupDifference:
        """Draw an experiment; the second group's true mean is higher by ``effect``."""
        shared = 3 * rng.normal(size=self.sentences)
        groups = []
        for seeds, ratio, mean in zip(self.seeds, (1.0, self.ratio), (0.0, effect), strict=True):
            seed = (
                rng.normal(size=(seeds, 1)) * (ratio * self.seed_variance / self.sentences) ** 0.5
            )
            own = self._noise(rng, (1, self.sentences)) * (self.group_variance / 2) ** 0.5
            interaction = self._noise(rng, (seeds, self.sentences))
            groups.append(mean + shared + seed + own + interaction)
        return compare_means(groups[1], groups[0])

    def _noise(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        if not self.is_skewed:
            return rng.normal(size=shape)
        # Most sentences are translated alike, while others change much; skewness 2, kurtosis 15.
        changed = rng.random(shape) < 0.4
        noise: np.ndarray = changed * (rng.exponential(size=shape) - 1) / 0.4**0.5
        return noise

    def significant(self, experiments: int, effect: float = 0.0) -> float:
        """Return the percentage of experiments that are significant at 5 %."""
        rng = np.random.default_rng(1)
        found = (self.draw(rng, effect).p_value for _ in range(experiments))
        return 100 * sum(p_value is not None and p_value < 0.05 for p_value in found) / experiments


VARIANCES = {
    "none": (0.0, 0.0),
    "sentences": (0.0, 2.0),
    "seeds, small": (0.3, 0.0),
    "seeds": (1.0, 0.0),
    "seeds and sentences": (1.0, 1.0),
    "seeds, large": (20.0, 0.0),
    "seeds, large, and sentences": (20.0, 10.0),
}
"""Of seeds, and of sentences that a group translates better or worse."""


class _CountedBleu(BLEU):
    """BLEU of sentences whose n-grams are already counted."""

    def _extract_corpus_statistics(self, hypotheses: Any, references: object) -> Any:
        return hypotheses


@cache
def _counted_translations(kinds: int = 12) -> np.ndarray:
    """Return BLEU's counts of the toy text's sentences, translated from badly to well."""
    rng = np.random.default_rng(2)
    references = TOY.read_text(encoding="utf-8").splitlines()
    difficulty = rng.beta(2, 4, size=len(references))
    counts = []
    for kind in range(kinds):
        hypotheses = []
        for reference, hard in zip(references, difficulty, strict=True):
            wrong = rng.random(len(reference.split())) < hard * (1.5 - kind / kinds)
            words = zip(reference.split(), wrong, strict=True)
            hypotheses.append(" ".join(rng.choice(["a", ""]) if w else word for word, w in words))
        counts.append(BLEU(references=[references])._extract_corpus_statistics(hypotheses, None))
    return np.array(counts)


def draw_bleu(
    rng: np.random.Generator, seeds: Sequence[int], sentences: int, deviations: tuple[float, float]
) -> GroupDifference:
    """Draw two groups' translations from one distribution, and test their BLEU.

    Args:
        rng: the random generator.
        seeds: number of seeds in each group.
        sentences: number of sentences, drawn from the toy text.
        deviations: of seeds, and of sentences that a group translates better or worse, in units of
            the interaction's deviation.
    """
    counted = _counted_translations()
    text = rng.integers(counted.shape[1], size=sentences)
    groups = []
    for number in seeds:
        quality = (
            deviations[0] * rng.normal(size=(number, 1))
            + deviations[1] * rng.normal(size=(1, sentences))
            + rng.normal(size=(number, sentences))
        )
        kinds = np.clip(np.rint(2 * quality + len(counted) / 2), 0, len(counted) - 1).astype(int)
        groups.append(
            np.stack([score_sentences(_CountedBleu(), counted[each, text])[1] for each in kinds])
        )
    return compare_means(*groups)


def significant_bleu(
    experiments: int, seeds: tuple[int, int], sentences: int, deviations: tuple[float, float]
) -> float:
    """Return the percentage of experiments that are significant at 5 %."""
    rng = np.random.default_rng(1)
    found = (draw_bleu(rng, seeds, sentences, deviations).p_value for _ in range(experiments))
    return 100 * sum(p_value is not None and p_value < 0.05 for p_value in found) / experiments


def _print_tables(experiments: int) -> Iterator[str]:
    sizes = ((2, 2), (3, 3), (5, 5), (10, 10), (3, 5))
    yield "| variance | " + " | ".join(f"{a} and {b}" for a, b in sizes) + " |"
    yield "|---|" + "---|" * len(sizes)
    for name, (seeds, groups) in VARIANCES.items():
        worlds = [World(size, 100, seeds, groups) for size in sizes]
        found = [f"{world.significant(experiments):.1f}" for world in worlds]
        yield f"| {name} | " + " | ".join(found) + " |"
    for ratio in (4.0, 0.25, 10.0, 0.1, 100.0, 0.01):
        worlds = [World(size, 100, 5.0, 0.0, ratio) for size in sizes]
        found = [f"{world.significant(experiments):.1f}" for world in worlds]
        yield f"| seeds, {ratio:g} times in the second | " + " | ".join(found) + " |"
    for skewed in ((3, 3), (5, 5)):
        for sentences in (50, 1000):
            worlds = [
                World(skewed, sentences, *each, is_skewed=True) for each in VARIANCES.values()
            ]
            found = [f"{world.significant(experiments):.1f}" for world in worlds]
            yield f"| skewed {skewed} {sentences} | " + " | ".join(found) + " |"


if __name__ == "__main__":
    for line in _print_tables(10_000):
        print(line, flush=True)
    for size in ((3, 3), (5, 5)):
        for deviations in ((0.0, 0.0), (0.1, 0.0), (0.1, 0.5), (0.5, 0.0)):
            print(
                "BLEU", size, deviations, significant_bleu(5000, size, 200, deviations), flush=True
            )
