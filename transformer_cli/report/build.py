"""The content of a report on a run."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from transformer_cli.config.origins import load_origins
from transformer_cli.config.yaml import dump_config
from transformer_cli.data.corpus import ParallelText
from transformer_cli.data.sources import open_training_text
from transformer_cli.data.token_arrays import encode_text
from transformer_cli.errors import CorpusError, InputError
from transformer_cli.evaluation.metrics import USUAL, Metrics
from transformer_cli.evaluation.scoring import evaluate
from transformer_cli.inference.attention_maps import compute_attention_maps
from transformer_cli.inference.ctranslate2_engine import CTranslate2Engine
from transformer_cli.inference.engine import ignore
from transformer_cli.inference.lines import LongLine
from transformer_cli.inference.torch_engine import TorchTranslator
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.report.breakdown import (
    LengthBucket,
    RarityBucket,
    count_words,
    score_by_length,
    score_by_rarity,
)
from transformer_cli.report.charts import (
    Chart,
    Series,
    make_training_charts,
)
from transformer_cli.report.examples import (
    SEED,
    Example,
    choose_sentences,
    make_example,
    sentence_scores,
)
from transformer_cli.report.packed_attention import pack_attention
from transformer_cli.report.score_rows import ScoreRow, make_score_rows
from transformer_cli.report.settings import Setting, chosen_settings
from transformer_cli.report.statistics import Statistics, compute_statistics, make_length_chart
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initialize import corpus_directory
from transformer_cli.runs.records import Record, environment_of_training, read_records, validations
from transformer_cli.text.lines import ProgressBar
from transformer_cli.training.metrics import perplexity

ATTENTION_SENTENCES = 5
"""Sentences of the split whose attention is shown."""
_FITTING_TOKENS = (4, 30)
_MOST_TOKENS = 200  # the page's size grows with their square


@dataclass(frozen=True)
class Subject:
    """Subject of a report."""

    name: str
    run: RunDirectory
    translator: TorchTranslator
    checkpoint: str
    """As it was asked for: 'best', say."""
    step: int
    split: str
    text: ParallelText
    searcher: TextTranslator[CTranslate2Engine] | None = None
    """Translates the split instead, where CTranslate2 is faster."""
    metrics: Metrics = USUAL


@dataclass(frozen=True)
class Report:
    """Content of a report."""

    subject: Subject
    parameters: int
    charts: list[Chart]
    validations: list[Record]
    settings: list[Setting]
    config: str
    """As YAML."""
    trained_with: dict[str, object] | None
    """Device, precision, versions; None: not recorded."""
    statistics: Statistics
    scores: list[ScoreRow]
    perplexity: float
    lengths: list[LengthBucket]
    rarity: list[RarityBucket] | None
    """None: the training text is not there."""
    examples: dict[str, list[Example]]
    attention: list[dict[str, Any]]


def build(
    subject: Subject,
    asked: Sequence[dict[str, Any]],
    progress: ProgressBar,
    translated: Callable[[int], object] = ignore,
    on_long_line: Callable[[LongLine], object] = ignore,
) -> Report:
    """Translate the split, score it, and collect all that the report shows.

    Args:
        subject: a trained run, and the text to judge it by.
        asked: attention of further sentences, by ``pack_sentence``.
        progress: wraps passes over lines, given a label, as tqdm would.
        translated: called with the number of sentences just translated.
        on_long_line: called with each line too long to be translated as one.

    Raises:
        CorpusError: all pairs of the split are too long to be measured.
        RunError: the run's files are damaged.
    """
    translator, text = subject.translator, subject.text
    languages = (translator.config.data.src_lang, translator.config.data.tgt_lang)
    records = read_records(subject.run.metrics)
    encoded = encode_text(text, translator.tokenizers, progress)
    statistics = compute_statistics(subject.run, translator.tokenizers, encoded)
    lengths = encoded.src.lengths.tolist()
    result = evaluate(
        translator,
        text,
        translated,
        on_long_line=on_long_line,
        searcher=subject.searcher,
        metrics=subject.metrics,
    )
    hypotheses = result.hypotheses
    attention = []
    for number in _choose_sentences(lengths):
        tagged = translator.with_tag(text.tags[number]) if text.tags else translator
        line = text.src[number]
        attention.append(pack_attention(line, compute_attention_maps(tagged, line)))
    scores = sentence_scores(hypotheses, text.tgt)
    chart = make_length_chart(statistics, languages)
    found_lengths = score_by_length(lengths, hypotheses, text.tgt, subject.metrics)
    rarity = _rarity(subject, text, hypotheses, progress)
    return Report(
        subject,
        sum(weight.numel() for weight in translator.engine.model.parameters()),
        [
            *make_training_charts(records, subject.step),
            *([chart] if chart else []),
            *_breakdown_charts(found_lengths, rarity),
        ],
        validations(records),
        chosen_settings(translator.config, load_origins(subject.run.origins)),
        dump_config(translator.config),
        environment_of_training(records, subject.step),
        statistics,
        make_score_rows(hypotheses, text.tgt, subject.metrics),
        perplexity(result.loss),
        found_lengths,
        rarity,
        {
            kind: [
                make_example(n, scores[n], text.src[n], hypotheses[n], text.tgt[n]) for n in numbers
            ]
            for kind, numbers in choose_sentences(scores, text.tgt).items()
        },
        [*asked, *attention],
    )


def pack_sentence(translator: TorchTranslator, sentence: str) -> dict[str, Any]:
    """Return the attention of a sentence as ``pack_attention`` does.

    Raises:
        InputError: it is too long.
    """
    tokens = len(translator.tokenizers.encode_source(sentence).ids)
    if tokens > _MOST_TOKENS:
        raise InputError(
            f"has {tokens:,} tokens, and at most {_MOST_TOKENS} can be shown; give a shorter one"
        )
    return pack_attention(sentence, compute_attention_maps(translator, sentence))


def _choose_sentences(lengths: Sequence[int]) -> list[int]:
    """Return the indices of random sentences, if possible of a length that fits a screen."""
    least, most = _FITTING_TOKENS
    fit = [number for number, length in enumerate(lengths) if least <= length <= most]
    if not fit:
        fit = [number for number, length in enumerate(lengths) if 0 < length <= _MOST_TOKENS]
    return sorted(random.Random(SEED).sample(fit, min(ATTENTION_SENTENCES, len(fit))))


def _rarity(
    subject: Subject, text: ParallelText, hypotheses: Sequence[str], progress: ProgressBar
) -> list[RarityBucket] | None:
    try:
        earlier = corpus_directory(subject.run)
        pairs = open_training_text(subject.translator.config.data, earlier).pairs()
        targets = progress((tgt for _, tgt in pairs), "counting words")
        seen = count_words(targets, text.tgt)
    except CorpusError:
        return None  # a run that was moved here without its text
    return score_by_rarity(seen, hypotheses, text.tgt)


def _breakdown_charts(
    lengths: Sequence[LengthBucket], rarity: Sequence[RarityBucket] | None
) -> list[Chart]:
    labels = [bucket.label for bucket in lengths]
    notes = [f"{bucket.sentences:,} sentences" for bucket in lengths]
    charts = [
        Chart(
            "by-length",
            "Scores by length of the source",
            "BLEU and chrF by source tokens; the table has the numbers.",
            "source tokens",
            "score",
            [
                Series("BLEU", "val", labels, [bucket.bleu for bucket in lengths], notes),
                Series("chrF", "train", labels, [bucket.chrf for bucket in lengths], notes),
            ],
            kind="bars",
        )
    ]
    if rarity:
        charts.append(
            Chart(
                "by-rarity",
                "Reference words found in the translation",
                "Recall by how often the training text has a word; the table has the numbers.",
                "times in the training text",
                "per cent found",
                [
                    Series(
                        "recall",
                        "val",
                        [bucket.label for bucket in rarity],
                        [bucket.recall for bucket in rarity],
                        [f"{bucket.found:,} of {bucket.words:,}" for bucket in rarity],
                    )
                ],
                kind="bars",
            )
        )
    return charts
