"""Test whether chance can explain the difference between two systems' scores."""

from collections.abc import Sequence
from typing import NamedTuple

from sacrebleu.metrics.base import Metric as SacreMetric

from transformer_cli.evaluation.scores import MAX_SENTENCES, bootstrap, measure


class TestedScore(NamedTuple):
    """A ``Score``, with a test of its difference from the first system's score."""

    value: float
    signature: str
    half_width: float | None = None
    # The probability of so large a difference from the first system by chance; None: untested.
    p_value: float | None = None


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
