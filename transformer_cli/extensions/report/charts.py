"""Statistics and charts of a run: training curves, and scores by sentence length."""

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from transformer_cli.config.choices import METRICS, Metric
from transformer_cli.evaluation.scores import USUAL, Metrics
from transformer_cli.runs.metrics_log import Record

# Buckets start at these numbers of source tokens; the last one has no end.
LENGTHS = (1, 6, 11, 16, 21, 31, 41, 61)


# --- records of metrics.jsonl, which users may have edited ----------------------------------------

_MEASURED = (*(name for name, metric in METRICS.items() if not metric.is_thorough), "perplexity")


def validations(records: Iterable[Record]) -> list[Record]:
    """Return a record of the step and the metrics for each validation; invalid metrics are None."""
    return [
        {"step": record["step"], **{key: number(record, key) for key in _MEASURED}}
        for record in records
        if record["kind"] == "validation"
    ]


def number(record: Record, key: str) -> float | None:
    """Return the number under ``key`` in a record; None if it is missing or not finite."""
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    with suppress(OverflowError):  # an integer too large for a float
        return value if math.isfinite(value) else None
    return None


# --- statistics -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class LengthBucket:
    """A group of sentences of similar length: their number, and their score for each metric."""

    label: str
    sentences: int
    scores: dict[str, float]


def score_by_length(
    lengths: Sequence[int],
    hypotheses: Sequence[str],
    references: Sequence[str],
    metrics: Metrics = USUAL,
) -> list[LengthBucket]:
    """Group sentences by length; return the groups, scored by all but the lowercased metrics.

    ``lengths`` are in source tokens without EOS; empty sentences count as one token.
    """
    scored = {name: m for name, m in metrics.by_name().items() if not METRICS[name].needs_case}
    places = np.digitize(np.maximum(1, lengths), LENGTHS) - 1
    labels = [f"{start:,}–{end - 1:,}" for start, end in pairwise(LENGTHS)]
    buckets = []
    for place, label in enumerate([*labels, f"{LENGTHS[-1]:,}+"]):
        numbers = np.flatnonzero(places == place).tolist()
        if numbers:
            own, own_references = ([side[n] for n in numbers] for side in (hypotheses, references))
            scores = {
                name: metric.corpus_score(own, [own_references]).score
                for name, metric in scored.items()
            }
            buckets.append(LengthBucket(label, len(numbers), scores))
    return buckets


# --- charts ---------------------------------------------------------------------------------------


class Series(NamedTuple):
    """A line in a chart, as points (x, y)."""

    name: str
    role: str  # sets the colour: 'train' or 'val'
    x: list[Any]
    y: list[float | None]


class Chart(NamedTuple):
    """A chart for plotly; all its values can be written as JSON."""

    name: str
    title: str
    y: str
    series: list[Series]
    x: str = "optimizer step"
    says: str = ""  # alternative text
    log: bool = False
    from_zero: bool = True
    mark: int | None = None  # step of the checkpoint that the page describes

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "series": [line._asdict() for line in self.series]}


def make_training_charts(records: Sequence[Record], step: int) -> list[Chart]:
    """Return the charts for which ``records`` have data, each with a vertical line at ``step``."""
    trained = [record for record in records if record["kind"] == "train"]
    validated = validations(records)
    # There are two colours: for BLEU and lowercased BLEU, or for chrF in scripts without case.
    metrics = measured_metrics(validated)[:2]
    label = " and ".join(metric.label for metric in metrics if not metric.needs_case)

    def line(name: str, role: str, of: Sequence[Record], key: str) -> Series:
        steps = [record["step"] for record in of]
        return Series(name, role, steps, [number(record, key) for record in of])

    def both(key: str) -> list[Series]:
        return [line("training", "train", trained, key), line("validation", "val", validated, key)]

    scores = [
        line(metric.short or metric.label, role, validated, metric.name)
        for metric, role in zip(metrics, ("val", "train"), strict=False)
    ]
    log = "perplexity, logarithmic"
    rate = [line("learning rate", "train", trained, "learning_rate")]
    charts = []
    for chart in (
        Chart("loss", "Loss", "nats per token", both("loss"), from_zero=False),
        Chart("perplexity", "Perplexity", log, both("perplexity"), log=True, from_zero=False),
        Chart("scores", f"{label} of the validation split", f"{label}, greedy", scores),
        Chart("rate", "Learning rate", "learning rate", rate),
    ):
        drawn = [line for line in chart.series if any(y is not None for y in line.y)]
        if drawn:
            says = f"{chart.title}: {'; '.join(map(_in_words, drawn))}."
            charts.append(chart._replace(series=drawn, says=says, mark=step))
    return charts


def measured_metrics(validated: Sequence[Record]) -> list[Metric]:
    """Return the metrics that at least one validation has recorded."""
    return [
        metric
        for metric in METRICS.values()
        if metric.is_of_text and any(record.get(metric.name) is not None for record in validated)
    ]


def _in_words(line: Series) -> str:
    points = [(x, y) for x, y in zip(line.x, line.y, strict=True) if y is not None]
    (first, at_first), (last, at_last) = points[0], points[-1]
    return f"{line.name} {at_first:.4g} at step {first}, {at_last:.4g} at step {last}"
