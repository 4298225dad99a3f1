"""Charts of a run's metrics.jsonl."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from transformer_cli.metrics import METRICS, Metric
from transformer_cli.runs.metrics_log import Record, number, validations

_STEP = "optimizer step"


class Series(NamedTuple):
    """A line, or a row of bars, of a chart."""

    name: str
    role: str
    """Role that decides the colour: 'train', 'val', 'src' or 'tgt', or a number of the legend."""
    x: list[Any]
    y: list[float | None]
    note: list[str] | None = None
    """Hover text of each point."""
    low: list[float | None] | None = None
    """Lower edge of a band around the line."""
    high: list[float | None] | None = None
    """Upper edge."""
    is_faint: bool = False
    """Drawn dotted, or as hollow dots."""


class Chart(NamedTuple):
    """A picture for plotly to draw; everything it needs is plain JSON."""

    name: str
    title: str
    says: str
    """Alternative text."""
    x: str
    y: str
    series: list[Series]
    kind: str = "lines"
    log: bool = False
    from_zero: bool = True
    mark: int | None = None
    """The step of the checkpoint that the page is about."""
    x_scale: str = "linear"
    """Or 'log' or 'category'."""
    ticks: list[Any] | None = None
    """Values to mark on the x axis; None: where there is room."""
    tick_names: list[str] | None = None
    """What to write there."""

    def as_json(self) -> dict[str, Any]:
        """Return the chart as JSON values."""
        return {**self._asdict(), "series": [line._asdict() for line in self.series]}


def make_training_charts(records: Sequence[Record], step: int) -> list[Chart]:
    """Return charts of metrics.jsonl by step, where there is data; ``step`` is marked."""
    trained = [record for record in records if record["kind"] == "train"]
    validated = validations(records)
    # Two lines can be told apart: BLEU and lowercased BLEU, or chrF where there is no case.
    metrics = measured_metrics(validated)[:2]
    scores = " and ".join(metric.label for metric in metrics if not metric.needs_case)

    def series(name: str, role: str, of: Sequence[Record], key: str) -> Series:
        return Series(
            name, role, [record["step"] for record in of], [number(record, key) for record in of]
        )

    def both(key: str) -> list[Series]:
        return [
            series("training", "train", trained, key),
            series("validation", "val", validated, key),
        ]

    lines = [
        series(metric.short or metric.label, role, validated, metric.name)
        for metric, role in zip(metrics, ("val", "train"), strict=False)
    ]
    rate = series("learning rate", "train", trained, "learning_rate")
    charts = [
        Chart("loss", "Loss", "", _STEP, "nats a token", both("loss"), from_zero=False),
        Chart(
            "perplexity",
            "Perplexity",
            "",
            _STEP,
            "perplexity, logarithmic",
            both("perplexity"),
            log=True,
            from_zero=False,
        ),
        Chart("scores", f"{scores} of the validation split", "", _STEP, f"{scores}, greedy", lines),
        Chart("rate", "Learning rate", "", _STEP, "learning rate", [rate]),
    ]
    drawn = [
        chart._replace(series=[line for line in chart.series if any(y is not None for y in line.y)])
        for chart in charts
    ]
    return [
        chart._replace(says=_in_words(chart.title, chart.series), mark=step)
        for chart in drawn
        if chart.series
    ]


def measured_metrics(validated: Sequence[Record]) -> list[Metric]:
    """Return the metrics of translations that some validations have measured."""
    return [
        metric
        for metric in METRICS.values()
        if metric.build and any(record.get(metric.name) is not None for record in validated)
    ]


def _in_words(title: str, drawn: Sequence[Series]) -> str:
    parts = []
    for line in drawn:
        points = [(x, y) for x, y in zip(line.x, line.y, strict=True) if y is not None]
        (first, at_first), (last, at_last) = points[0], points[-1]
        parts.append(f"{line.name} {at_first:.4g} at step {first}, {at_last:.4g} at step {last}")
    return f"{title}: {'; '.join(parts)}."
