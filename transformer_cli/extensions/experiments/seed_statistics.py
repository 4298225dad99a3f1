"""Compare single runs by their sentences, and groups of runs by both seeds and sentences.

Seeds and sentences are crossed random effects (Clark 1973, "The language-as-fixed-effect fallacy"):
another experiment would have other seeds and other sentences. Seeds are nested in groups; sentences
are the same in all groups. docs/extensions/experiments.md lists the assumptions, and how often null
effects were found significant in simulations.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from sacrebleu.metrics.base import Metric as SacreMetric

from transformer_cli.base.packages import import_extra
from transformer_cli.config.choices import METRICS
from transformer_cli.evaluation.scores import MAX_SENTENCES, USUAL, Metrics, bootstrap, measure

LEVEL = 0.05  # of the two-sided tests; intervals cover the rest


@dataclass
class GroupDifference:
    """A group's mean score minus that of the reference (first) group, in points of the metric.

    Everything except ``difference`` is None if one of the groups is a single run.
    """

    difference: float
    half_width: float | None = None  # half of its 95 % interval, over seeds and sentences
    p_value: float | None = None  # from a test over seeds and sentences
    p_holm: float | None = None  # ``p_value``, corrected for all compared groups


@dataclass
class GroupScore:
    """One group's scores in one metric, in points. A single run has no deviation or interval."""

    scores: list[float]  # one per run, in the group's order
    mean: float
    deviation: float | None  # sample standard deviation over the runs
    half_width: float | None  # half of the 95 % interval of the mean, over seeds
    difference: GroupDifference | None = None  # None for the reference group

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ends of the mean's 95 % interval, clipped to 0 and 100; None for a single run."""
        if self.half_width is None:
            return None
        return max(0.0, self.mean - self.half_width), min(100.0, self.mean + self.half_width)


@dataclass(frozen=True)
class MetricComparison:
    """The scores of all groups in one metric."""

    signature: str
    groups: list[GroupScore]


def compare_groups(
    translations: Sequence[Sequence[Sequence[str]]],
    references: Sequence[str],
    metrics: Metrics = USUAL,
) -> dict[str, MetricComparison]:
    """Score groups of runs with each metric, and test their differences from the first group.

    ``translations[group][run][sentence]`` is a translation; each run of a group has its own seed,
    and no list is empty. References are raw lines. Scores are those of ``evaluation.scores.score``.
    """
    compared = {}
    for name, metric in metrics.by_name(references=[list(references)]).items():
        groups: list[GroupScore] = []
        shares: list[np.ndarray] = []
        for group in translations:
            scored = [score_sentences(metric, hypotheses) for hypotheses in group]
            groups.append(summarize([score for score, _ in scored]))
            shares.append(np.stack([of_sentences for _, of_sentences in scored]))
        for other, own in zip(groups[1:], shares[1:], strict=True):
            other.difference = compare_means(own, shares[0])
        _correct_by_holm(groups)
        compared[name] = MetricComparison(str(metric.get_signature()), groups)
    return compared


def score_sentences(
    metric: SacreMetric, hypotheses: Sequence[str]
) -> tuple[float, Float[np.ndarray, " sentence"]]:
    """Return a corpus score and how each sentence affects it; ``metric`` must hold the references.

    A sentence's value is the jackknife's pseudo-value (Tukey 1958): the drop in the score without
    the sentence, times the number of sentences less one. The values are shifted so that their mean
    is the score. So the variance of the score over sentences is the variance of a mean.
    """

    def score_of(statistics: np.ndarray) -> float:
        return float(metric._compute_score_from_stats(statistics.tolist()).score)

    statistics = np.array(metric._extract_corpus_statistics(hypotheses, None))
    whole = statistics.sum(0)
    score = score_of(whole)
    if len(statistics) < 2:
        return score, np.array([score])
    without = np.array([score_of(rest) for rest in whole - statistics])
    return score, score + (len(without) - 1) * (without.mean() - without)


def summarize(scores: Sequence[float]) -> GroupScore:
    """Return the mean, standard deviation and Student's 95 % interval of the runs' scores."""
    mean = float(np.mean(scores))
    if len(scores) < 2:
        return GroupScore(list(scores), mean, deviation=None, half_width=None)
    deviation = float(np.std(scores, ddof=1))
    half_width = _critical(len(scores) - 1) * deviation / len(scores) ** 0.5
    return GroupScore(list(scores), mean, deviation, half_width)


def compare_means(
    group: Float[np.ndarray, "seed sentence"], reference: Float[np.ndarray, "other_seed sentence"]
) -> GroupDifference:
    """Test whether two groups' means differ, over seeds and sentences (Clark's 1973 quasi-F).

    The variance of the difference is a variance over seeds plus one over sentences. The latter
    includes the interaction of seeds and sentences, which is subtracted, as the variance over seeds
    includes it too. The remainder is set to zero unless it exceeds its standard error: if all
    positive noise counted, a test at 5 % with 3 seeds and 100 sentences would find only 2 % of null
    effects significant.

    Everything except the difference is None if there are fewer than two seeds per group or two
    sentences, or if nothing varies. ``p_holm`` is filled in later.
    """
    difference = float(group.mean() - reference.mean())
    both = (group, reference)
    if min(*group.shape, *reference.shape) < 2:
        return GroupDifference(difference)
    means = [scores.mean(1, keepdims=True) for scores in both]
    num_seeds = np.array([len(scores) for scores in both])
    over_seeds = np.array([scores.var(ddof=1) for scores in means]) / num_seeds
    seeds = float(over_seeds.sum())
    rest = [scores - mean for scores, mean in zip(both, means, strict=True)]
    between = (rest[0].mean(0) - rest[1].mean(0)) ** 2
    within = sum(scores.var(0, ddof=1) / len(scores) for scores in rest)
    num_sentences = group.shape[1]
    excess = (between - within) / (num_sentences - 1)
    sentences = float(excess.mean())
    error = max(
        float(excess.std(ddof=1)) / num_sentences**0.5,
        sentences * (2 / (num_sentences - 1)) ** 0.5,  # for normally distributed points
    )
    if sentences <= (error if seeds else 0.0):
        sentences = error = 0.0
    total = seeds + sentences
    if not total:
        return GroupDifference(difference, p_value=None if difference else 1.0)
    # Degrees of freedom by Welch (1947). With few seeds, they come nearer to 5 % than Welch's and
    # Satterthwaite's older ones. They are as near as a pooled variance's, which requires groups of
    # equal variance.
    of_seeds = 1.0
    if seeds:
        of_seeds = float(seeds**2 / (over_seeds**2 / (num_seeds + 1)).sum() - 2)
    # Degrees of freedom of a sum of variances, by Satterthwaite (1946).
    degrees = total**2 / (seeds**2 / of_seeds + error**2 / 2)
    return GroupDifference(
        difference,
        half_width=_critical(degrees) * total**0.5,
        p_value=float(2 * _special().stdtr(degrees, -abs(difference) / total**0.5)),
    )


def _correct_by_holm(groups: Sequence[GroupScore]) -> None:
    """Set ``p_holm`` in the groups' differences: ``p_value`` with the correction of Holm (1979)."""
    tested = [
        (group.difference.p_value, group.difference)
        for group in groups
        if group.difference and group.difference.p_value is not None
    ]
    p_holm = 0.0
    for rank, (p_value, difference) in enumerate(sorted(tested, key=lambda row: row[0])):
        p_holm = max(p_holm, min(1.0, (len(tested) - rank) * p_value))
        difference.p_holm = p_holm


def _critical(degrees: float) -> float:
    """Return the two-sided critical value of Student's t at ``LEVEL``."""
    return float(_special().stdtrit(degrees, 1 - LEVEL / 2))


def _special() -> Any:
    return import_extra("scipy.special", "sweep", "statistics over seeds")


_ABOUT_ZERO = 1.0  # below this value, BLEU is noise: the model has learned almost nothing
TRAIN_LONGER = (
    "all scores are about 0, so they cannot be compared; train longer (training.epochs, "
    "training.max_steps)"
)


def says_nothing(metric: str, scores: Iterable[float]) -> bool:
    """Return whether all scores are near 0, so that they do not say which system is better."""
    return METRICS[metric].higher_is_better and max(scores, default=100.0) < _ABOUT_ZERO


# --- single runs ----------------------------------------------------------------------------------


class TestedScore(NamedTuple):
    """A ``Score``, with a test of its difference from the first system's score."""

    value: float
    signature: str
    half_width: float | None = None
    # The probability of so large a difference from the first system by chance; None: untested.
    p_value: float | None = None


def score_systems(
    systems: Sequence[Sequence[str]], references: Sequence[str], metrics: Metrics = USUAL
) -> list[dict[str, TestedScore]]:
    """Return each system's scores by metric; main metrics include a test against the first one."""
    columns = {
        name: paired_bootstrap(systems, references, metric)
        if METRICS[name].is_first
        else [
            TestedScore(*measure(metric, system, references, resample=False)) for system in systems
        ]
        for name, metric in metrics.by_name().items()
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def paired_bootstrap(
    systems: Sequence[Sequence[str]], references: Sequence[str], metric: SacreMetric
) -> list[TestedScore]:
    """Compare systems with the first one, using paired bootstrap resampling (Koehn 2004).

    The first system has no p-value. With a single sentence there are no p-values, because all
    samples are the same. With more than ``MAX_SENTENCES`` sentences, only scores are returned.
    """
    if len(references) > MAX_SENTENCES:
        return [
            TestedScore(*measure(metric, system, references, resample=False)) for system in systems
        ]
    signature, results = bootstrap(systems, references, metric)
    scores = []
    for number, result in enumerate(results):
        p_value = None
        if number > 0 and len(references) > 1:
            # Zero is the smallest difference, so all samples reach it, and p is 1. sacreBLEU counts
            # samples that exceed it: none between equal outputs, so it would report p = 0.001.
            p_value = 1.0 if result.score == results[0].score else _number(result.p_value)
        scores.append(TestedScore(_number(result.score), signature, _number(result.ci), p_value))
    return scores


def _number(value: float | None) -> float:
    assert value is not None
    return float(value)
