"""Charts of a run: its curves by metrics.jsonl, its training text, and what it is good at."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from transformer_cli.metrics import METRICS, Metric
from transformer_cli.report.statistics import LengthBucket, RarityBucket, SideStatistics
from transformer_cli.runs.metrics_log import Record, number, validations

STEP = "optimizer step"
_TWO_ROLES = ("val", "train")


class Series(NamedTuple):
    """A line, or a row of bars, of a chart."""

    name: str
    role: str  # decides the colour: 'train', 'val', 'src' or 'tgt', or a number of the legend
    x: list[Any]
    y: list[float | None]
    note: list[str] | None = None  # hover text of each point
    low: list[float | None] | None = None  # lower edge of a band around the line
    high: list[float | None] | None = None
    is_faint: bool = False  # drawn dotted, or as hollow dots


class Chart(NamedTuple):
    """A picture for plotly to draw; everything it needs is plain JSON."""

    name: str
    title: str
    x: str
    y: str
    series: list[Series]
    says: str = ""  # alternative text
    kind: str = "lines"  # or 'bars', 'area', 'bands' or 'dots'
    log: bool = False
    from_zero: bool = True
    mark: int | None = None  # the step of the checkpoint that the page is about
    x_scale: str = "linear"  # or 'log' or 'category'
    ticks: list[Any] | None = None  # values to mark on the x axis; None: where there is room
    tick_names: list[str] | None = None  # what to write there

    def as_json(self) -> dict[str, Any]:
        """Return the chart as JSON values."""
        return {**self._asdict(), "series": [line._asdict() for line in self.series]}


def make_training_charts(records: Sequence[Record], step: int) -> list[Chart]:
    """Return charts of metrics.jsonl by step, where there is data; ``step`` is marked."""
    trained = [record for record in records if record["kind"] == "train"]
    validated = validations(records)
    # Two lines can be told apart: BLEU and lowercased BLEU, or chrF where there is no case.
    metrics = measured_metrics(validated)[:2]
    label = " and ".join(metric.label for metric in metrics if not metric.needs_case)

    def line(name: str, role: str, of: Sequence[Record], key: str) -> Series:
        steps = [record["step"] for record in of]
        return Series(name, role, steps, [number(record, key) for record in of])

    def both(key: str) -> list[Series]:
        return [line("training", "train", trained, key), line("validation", "val", validated, key)]

    scores = [
        line(metric.short or metric.label, role, validated, metric.name)
        for metric, role in zip(metrics, _TWO_ROLES, strict=False)
    ]
    log = "perplexity, logarithmic"
    rate = [line("learning rate", "train", trained, "learning_rate")]
    charts = []
    for chart in (
        Chart("loss", "Loss", STEP, "nats a token", both("loss"), from_zero=False),
        Chart("perplexity", "Perplexity", STEP, log, both("perplexity"), log=True, from_zero=False),
        Chart("scores", f"{label} of the validation split", STEP, f"{label}, greedy", scores),
        Chart("rate", "Learning rate", STEP, "learning rate", rate),
    ):
        drawn = [line for line in chart.series if any(y is not None for y in line.y)]
        if drawn:
            says = f"{chart.title}: {'; '.join(map(_in_words, drawn))}."
            charts.append(chart._replace(series=drawn, says=says, mark=step))
    return charts


def measured_metrics(validated: Sequence[Record]) -> list[Metric]:
    """Return the metrics of translations that some validations have measured."""
    return [
        metric
        for metric in METRICS.values()
        if metric.build and any(record.get(metric.name) is not None for record in validated)
    ]


def _in_words(line: Series) -> str:
    points = [(x, y) for x, y in zip(line.x, line.y, strict=True) if y is not None]
    (first, at_first), (last, at_last) = points[0], points[-1]
    return f"{line.name} {at_first:.4g} at step {first}, {at_last:.4g} at step {last}"


def make_length_chart(
    trained: Sequence[SideStatistics] | None, languages: tuple[str, str]
) -> list[Chart]:
    """Return a chart of training lines by length but for the longest hundredth, if any are."""
    if trained is None:
        return []
    series = []
    names = zip(("source", "target"), ("src", "tgt"), languages, trained, strict=True)
    for name, role, language, side in names:
        end = side.lengths[99] + 1
        counts = side.counts[:end].tolist()
        series.append(Series(f"{name} ({language})", role, list(range(end)), counts))
    medians = f"{trained[0].lengths[50]} and {trained[1].lengths[50]}"
    says = f"Lines by length: the middle ones have {medians} tokens, source and target."
    title = "Length of training lines"
    return [Chart("lengths", title, "tokens in a line", "lines", series, says, kind="area")]


def make_breakdown_charts(
    lengths: Sequence[LengthBucket], rarity: Sequence[RarityBucket] | None
) -> list[Chart]:
    """Return bars of the scores by length and of the recall by rarity."""
    labels = [bucket.label for bucket in lengths]
    notes = [f"{bucket.sentences:,} sentences" for bucket in lengths]
    metrics = [METRICS[name] for name in lengths[0].scores][:2]
    bars = [
        Series(
            metric.label, role, labels, [bucket.scores[metric.name] for bucket in lengths], notes
        )
        for metric, role in zip(metrics, _TWO_ROLES, strict=True)
    ]
    names = " and ".join(metric.label for metric in metrics)
    title, says = "Scores by length of the source", f"{names} by source tokens"
    more = "; the table has the numbers."
    drawn = [Chart("by-length", title, "source tokens", "score", bars, says + more, "bars")]
    if rarity:
        labels = [bucket.label for bucket in rarity]
        notes = [f"{bucket.found:,} of {bucket.words:,}" for bucket in rarity]
        bars = [Series("recall", "val", labels, [bucket.recall for bucket in rarity], notes)]
        title, x = "Reference words found in the translation", "times in the training text"
        says = "Recall by how often the training text has a word"
        drawn.append(Chart("by-rarity", title, x, "per cent found", bars, says + more, "bars"))
    return drawn
