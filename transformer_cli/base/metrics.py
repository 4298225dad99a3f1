"""The metrics of translations, one entry each: all that scores, compares or shows reads this.

To add one, add its entry to ``METRICS``, and its name to ``SelectName`` and ``RankName`` if
validations measure it (then make configs/schema.json and docs/configuration.md again).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:  # takes 0.1 s, and all commands read the names
    from sacrebleu.metrics.base import Metric as SacreMetric

DEFAULT_TOKENIZER = "13a"
TokenizerName = Literal["none", "13a", "intl", "char", "zh", "ja-mecab", "ko-mecab"]  # of BLEU
# What a best checkpoint may be chosen by, as settings name it, and as it is recorded: by lowercased
# BLEU where translations are lowercased. evaluation/best_checkpoint.py chooses.
SelectName = Literal["bleu", "chrf", "loss"]
RankName = Literal["bleu", "bleu_lc", "chrf", "loss"]
References = Sequence[Sequence[str]] | None


class Score(NamedTuple):
    """A score of a text's translations, detokenised, against raw references."""

    value: float  # from 0 to 100, but TER goes beyond
    signature: str
    half_width: float | None = None  # of the 95 % interval by bootstrap; None: not resampled
    # How likely chance alone makes so large a difference from the first system; None: untested.
    p_value: float | None = None


Scores = Mapping[str, Score]  # by the metric's name, in the order of ``METRICS``


@dataclass(frozen=True)
class Metric:
    """A metric."""

    name: str  # its key in records and reports
    label: str  # what people call it, in tables and charts
    # Makes sacreBLEU's object; None: it is of the model's probabilities.
    build: "Callable[[Metrics, References], SacreMetric] | None"
    short: str = ""  # its label where BLEU stands before it
    higher_is_better: bool = True
    needs_case: bool = False  # it says nothing new of a script without large and small letters
    is_first: bool = False  # logs show it at each validation, and compare tests its differences
    is_thorough: bool = False  # only evaluate and report measure it, as it takes seconds

    def rank(self, score: float) -> float:
        """Return a number that is the higher, the better."""
        return score if self.higher_is_better else -score


@dataclass(frozen=True)
class Metrics:
    """How translations into a language are scored."""

    tokenize: str = DEFAULT_TOKENIZER  # sacreBLEU's name of BLEU's tokenizer
    has_spaces: bool = True  # between words; else TER splits Chinese characters
    has_case: bool = True

    def by_name(
        self, references: References = None, thorough: bool = False
    ) -> "dict[str, SacreMetric]":
        """Return sacreBLEU's objects of the metrics that say something of the language.

        References are those of all that will be scored, if they are the same.
        """
        return {
            metric.name: metric.build(self, references)
            for metric in METRICS.values()
            if metric.build is not None
            and (self.has_case or not metric.needs_case)
            and (thorough or not metric.is_thorough)
        }


USUAL = Metrics()  # of languages with spaces and case, and of unknown ones


def _bleu(metrics: Metrics, references: References, lowercase: bool = False) -> "SacreMetric":
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(lowercase=lowercase, tokenize=metrics.tokenize, references=references)


def _chrf(metrics: Metrics, references: References) -> "SacreMetric":
    from sacrebleu.metrics.chrf import CHRF

    return CHRF(references=references)


def _ter(metrics: Metrics, references: References) -> "SacreMetric":
    from sacrebleu.metrics.ter import TER

    # It splits Asian characters only where it normalizes.
    asian = not metrics.has_spaces
    return TER(normalized=asian, asian_support=asian, references=references)


METRICS = {
    metric.name: metric
    for metric in (
        # Post 2018.
        Metric("bleu", "BLEU", _bleu, is_first=True),
        Metric(
            "bleu_lc",
            "BLEU lowercased",
            lambda metrics, references: _bleu(metrics, references, lowercase=True),
            short="lowercased",
            needs_case=True,
            is_first=True,
        ),
        # Popović 2015.
        Metric("chrf", "chrF", _chrf),
        # Snover et al. 2006: edits to a hundred reference words.
        Metric("ter", "TER", _ter, higher_is_better=False, is_thorough=True),
        Metric("loss", "loss", None, higher_is_better=False),
    )
}
