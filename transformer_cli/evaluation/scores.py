"""Scores of translations, and how sure they are: by sacreBLEU and its bootstrap resampling."""

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

SAMPLES = 1000  # test sets drawn, with replacement, from the sentences of the one there is
SEED = 12345  # of these draws; sacreBLEU's own
# Of more there are no intervals: they would be narrow, and sacreBLEU holds all samples at once,
# 70 KB a sentence for chrF.
MAX_SENTENCES = 10_000
_SEED_VARIABLE = "SACREBLEU_SEED"
References = Sequence[Sequence[str]] | None


class Score(NamedTuple):
    """A score of a text's translations, detokenised, against raw references."""

    value: float  # from 0 to 100, but TER goes beyond
    signature: str
    half_width: float | None = None  # of the 95 % interval by bootstrap; None: not resampled


Scores = Mapping[str, Score]  # by the metric's name, in the order of ``METRICS``


@dataclass(frozen=True)
class Metrics:
    """How translations into a language are scored."""

    tokenize: str = DEFAULT_TOKENIZER  # sacreBLEU's name of BLEU's tokenizer
    has_spaces: bool = True  # between words; else TER splits Chinese characters
    has_case: bool = True

    def by_name(
        self, references: References = None, thorough: bool = False
    ) -> dict[str, SacreMetric]:
        """Return sacreBLEU's objects of the metrics that say something of the language.

        References are those of all that will be scored, if they are the same.
        """
        return {
            metric.name: BUILDERS[metric.name](self, references)
            for metric in METRICS.values()
            if metric.is_of_text
            and (self.has_case or not metric.needs_case)
            and (thorough or not metric.is_thorough)
        }


USUAL = Metrics()  # of languages with spaces and case, and of unknown ones


def _bleu(metrics: Metrics, references: References, lowercase: bool = False) -> SacreMetric:
    return BLEU(lowercase=lowercase, tokenize=metrics.tokenize, references=references)


def _ter(metrics: Metrics, references: References) -> SacreMetric:
    # It splits Asian characters only where it normalizes.
    asian = not metrics.has_spaces
    return TER(normalized=asian, asian_support=asian, references=references)


BUILDERS: dict[str, Callable[[Metrics, References], SacreMetric]] = {
    "bleu": _bleu,
    "bleu_lc": partial(_bleu, lowercase=True),
    "chrf": lambda _, references: CHRF(references=references),
    "ter": _ter,
}
"""What makes sacreBLEU's object for each metric of text in ``METRICS``."""


def score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    thorough: bool = False,
    metrics: Metrics = USUAL,
) -> Scores:
    """Return the scores of one system: a translation a sentence, against as many raw references.

    Thorough ones have TER and 95 % intervals too, which takes 3 s for 1,000 lines.
    """
    return {
        name: measure(metric, hypotheses, references, thorough)
        for name, metric in metrics.by_name(thorough=thorough).items()
    }


def measure(
    metric: SacreMetric, hypotheses: Sequence[str], references: Sequence[str], resample: bool = True
) -> Score:
    """Return a score, with its 95 % interval if it is asked for and sentences are not too many."""
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
    """Resample systems by sacreBLEU's paired bootstrap; return the signature and their results.

    The same systems have the same results, whatever the environment says.
    """
    before = os.environ.get(_SEED_VARIABLE)
    os.environ[_SEED_VARIABLE] = str(SEED)  # sacreBLEU has it from the environment only
    try:
        # Results are kept by the metric's name, which BLEU has in either case: one test each.
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
