"""Translation scores with confidence intervals, computed with sacreBLEU's bootstrap resampling."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from sacrebleu.metrics.base import Metric as SacreMetric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, Result

from transformer_cli.config.choices import DEFAULT_TOKENIZER, METRICS

SAMPLES = 1000  # number of test sets drawn, with replacement, from the sentences of the real one
SEED = 12345  # seed of these draws; sacreBLEU's default
# Larger test sets get no intervals: they would be narrow, and sacreBLEU keeps all samples in
# memory, 70 KB a sentence for chrF.
MAX_SENTENCES = 10_000
_SEED_VARIABLE = "SACREBLEU_SEED"
References = Sequence[Sequence[str]] | None


class Score(NamedTuple):
    """A score of detokenised translations against raw references."""

    value: float  # from 0 to 100; TER may exceed 100
    signature: str
    half_width: float | None = None  # half of the 95 % bootstrap interval; None: not resampled


Scores = Mapping[str, Score]  # by the name of the metric, in the order of ``METRICS``


@dataclass(frozen=True)
class Metrics:
    """How translations into a language are scored."""

    tokenize: str = DEFAULT_TOKENIZER  # sacreBLEU's name for BLEU's tokenizer
    has_spaces: bool = True  # between words; if False, TER splits Chinese characters
    has_case: bool = True

    def by_name(
        self, references: References = None, thorough: bool = False
    ) -> dict[str, SacreMetric]:
        """Return sacreBLEU's objects, keyed by metric name, for metrics that suit the language.

        Give ``references`` if all translations will be scored against the same references.
        """
        return {
            metric.name: BUILDERS[metric.name](self, references)
            for metric in METRICS.values()
            if metric.is_of_text
            and (self.has_case or not metric.needs_case)
            and (thorough or not metric.is_thorough)
        }


USUAL = Metrics()  # for languages with spaces and case, and for unknown languages


def _bleu(metrics: Metrics, references: References, lowercase: bool = False) -> SacreMetric:
    return BLEU(lowercase=lowercase, tokenize=metrics.tokenize, references=references)


def _ter(metrics: Metrics, references: References) -> SacreMetric:
    # TER splits Asian characters only if it also normalizes.
    asian = not metrics.has_spaces
    return TER(normalized=asian, asian_support=asian, references=references)


BUILDERS: dict[str, Callable[[Metrics, References], SacreMetric]] = {
    "bleu": _bleu,
    "bleu_lc": partial(_bleu, lowercase=True),
    "chrf": lambda _, references: CHRF(references=references),
    "ter": _ter,
}
"""For each of the ``METRICS`` that score text, a function that builds its sacreBLEU object."""


def score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    thorough: bool = False,
    metrics: Metrics = USUAL,
) -> Scores:
    """Return the scores of one system, with one translation and one raw reference per sentence.

    ``thorough`` adds TER and 95 % intervals, which takes 3 s for 1,000 lines.
    """
    return {
        name: measure(metric, hypotheses, references, thorough)
        for name, metric in metrics.by_name(thorough=thorough).items()
    }


def measure(
    metric: SacreMetric, hypotheses: Sequence[str], references: Sequence[str], resample: bool = True
) -> Score:
    """Return a score; ``resample`` adds its 95 % interval, unless there are too many sentences."""
    if resample and len(references) <= MAX_SENTENCES:
        signature, (result,) = bootstrap([hypotheses], references, metric)
        assert result.score is not None
        assert result.ci is not None
        return Score(float(result.score), signature, float(result.ci))
    value = float(metric.corpus_score(hypotheses, [list(references)]).score)
    return Score(value, str(metric.get_signature()))


def bootstrap(
    systems: Sequence[Sequence[str]], references: Sequence[str], metric: SacreMetric
) -> tuple[str, list[Result]]:
    """Run sacreBLEU's paired bootstrap; return its signature, and a result for each system.

    The same systems always have the same results, whatever the environment variables are.
    """
    before = os.environ.get(_SEED_VARIABLE)
    os.environ[_SEED_VARIABLE] = str(SEED)  # sacreBLEU reads it only from the environment
    try:
        # Both kinds of BLEU have the same name in the results, so each metric needs its own test.
        signatures, results = PairedTest(
            [(str(number), hypotheses) for number, hypotheses in enumerate(systems)],
            {"": metric},
            [list(references)],
            test_type="bs",
            n_samples=SAMPLES,
        )()
    finally:
        del os.environ[_SEED_VARIABLE]
        if before is not None:
            os.environ[_SEED_VARIABLE] = before
    ((name, signature),) = signatures.items()
    return str(signature), [result for result in results[name] if isinstance(result, Result)]
