"""How sure a BLEU score is, and a difference between two: sacreBLEU's bootstrap resampling."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest, Result

SAMPLES = 1000
"""Test sets drawn, with replacement, from the sentences of the one there is."""
SEED = 12345
"""Of these draws; sacreBLEU's own."""
MOST_SENTENCES = 10_000
"""Of more there are no intervals of single scores: they would be narrow, and sacreBLEU holds all
samples at once, 70 KB a sentence for chrF."""
_SEED_VARIABLE = "SACREBLEU_SEED"


class Resampled(NamedTuple):
    """What resampling says about one system's score."""

    half_width: float
    """Half of the 95 % interval, in points of BLEU."""
    p_value: float | None
    """How likely chance alone makes so large a difference from the first system.

    None: the first, or there is one sentence, of which all samples are the same.
    """


@dataclass(frozen=True)
class PairedBootstrap:
    """What resampling says about several systems, in their order, and how it was done."""

    systems: list[Resampled]
    signature: str


class MetricScore(NamedTuple):
    """One system's score by one metric."""

    score: float
    half_width: float | None
    """Half of the 95 % interval, in points; None: not asked for, or too many sentences."""
    signature: str


def measure(
    metric: Metric, hypotheses: Sequence[str], references: Sequence[str], resample: bool = True
) -> MetricScore:
    """Return a score and its 95 % interval, which is the same as ``paired_bootstrap``'s.

    Args:
        metric: one of sacreBLEU's.
        hypotheses: one translation a sentence.
        references: as many raw reference lines.
        resample: whether to compute the interval, if there are not too many sentences.
    """
    if not resample or len(hypotheses) > MOST_SENTENCES:
        score = metric.corpus_score(hypotheses, [list(references)]).score
        return MetricScore(float(score), None, str(metric.get_signature()))
    with _fixed_seed():
        signatures, results = PairedTest(
            [("", hypotheses)], {"": metric}, [list(references)], "bs", SAMPLES
        )()
    ((name, signature),) = signatures.items()
    (found,) = results[name]
    assert isinstance(found, Result)
    return MetricScore(float(found.score), _number(found.ci), str(signature))


def paired_bootstrap(
    systems: Sequence[Sequence[str]], references: Sequence[str], bleu: BLEU
) -> PairedBootstrap:
    """Compare systems' BLEU with the first one's by paired bootstrap resampling (Koehn 2004).

    The same systems have the same result, whatever the environment says.

    Args:
        systems: at least one; each its translations, one a sentence.
        references: as many raw reference lines.
        bleu: of whatever case and tokenizer.
    """
    # sacreBLEU keeps results by the metric's name, which BLEU has in either case: one test each.
    with _fixed_seed():
        signatures, results = PairedTest(
            [(str(number), hypotheses) for number, hypotheses in enumerate(systems)],
            {"BLEU": bleu},
            [list(references)],
            test_type="bs",
            n_samples=SAMPLES,
        )()
    found = [result for result in results["BLEU"] if isinstance(result, Result)]
    tested = len(references) > 1
    return PairedBootstrap(
        [
            Resampled(_number(result.ci), _p_value(result, found[0]) if tested else None)
            for result in found
        ],
        str(signatures["BLEU"]),
    )


def _p_value(result: Result, first: Result) -> float | None:
    if result is first:
        return None
    # No difference is the least there can be, so all samples reach it. sacreBLEU counts those that
    # exceed it: none between equal outputs, which it would call different at p = 0.001.
    return 1.0 if result.score == first.score else _number(result.p_value)


def _number(value: float | None) -> float:
    assert value is not None
    return float(value)


@contextmanager
def _fixed_seed() -> Iterator[None]:
    """Seed what sacreBLEU draws: it takes its seed from the environment only."""
    before = os.environ.get(_SEED_VARIABLE)
    os.environ[_SEED_VARIABLE] = str(SEED)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SEED_VARIABLE]
        else:
            os.environ[_SEED_VARIABLE] = before
