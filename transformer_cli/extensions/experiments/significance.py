"""Whether one system's score is better than another's by more than chance."""

from collections.abc import Sequence
from typing import NamedTuple

from sacrebleu.metrics.base import Metric as SacreMetric

from transformer_cli.evaluation.scores import MAX_SENTENCES, bootstrap, measure


class TestedScore(NamedTuple):
    """A ``Score`` that is compared with the first system's."""

    value: float
    signature: str
    half_width: float | None = None
    # How likely chance alone makes so large a difference from the first system; None: untested.
    p_value: float | None = None


def paired_bootstrap(
    systems: Sequence[Sequence[str]], references: Sequence[str], metric: SacreMetric
) -> list[TestedScore]:
    """Compare systems with the first one by paired bootstrap resampling (Koehn 2004).

    There is no p-value of the first one, nor of a single sentence, of which all samples are the
    same. Of more sentences than ``MAX_SENTENCES`` there are scores alone.
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
            # No difference is the least there can be, so all samples reach it. sacreBLEU counts
            # those that exceed it: none between equal outputs, which it would call different at
            # p = 0.001.
            p_value = 1.0 if result.score == results[0].score else _number(result.p_value)
        score = TestedScore(_number(result.score), signature, _number(result.ci), p_value)
        scores.append(score)
    return scores


def _number(value: float | None) -> float:
    assert value is not None
    return float(value)
