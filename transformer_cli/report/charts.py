"""Charts of a run's metrics.jsonl."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from transformer_cli.runs.records import Record, number, validations


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
        return {**self._asdict(), "series": [each._asdict() for each in self.series]}


def make_training_charts(records: Sequence[Record], step: int) -> list[Chart]:
    """Return charts of loss, perplexity, scores and learning rate by step, where there is data.

    Args:
        records: of metrics.jsonl.
        step: the checkpoint's, which is marked.
    """
    trained = [record for record in records if record["kind"] == "train"]
    validated = validations(records)

    def series(name: str, role: str, of: Sequence[Record], key: str) -> Series:
        return Series(name, role, [each["step"] for each in of], [number(each, key) for each in of])

    has_case = any(each["bleu_lc"] is not None for each in validated)
    scores = "BLEU" if has_case else "BLEU and chrF"
    other, key = ("lowercased", "bleu_lc") if has_case else ("chrF", "chrf")
    wanted = [
        ("loss", "Loss", "nats a token", False, _both(series, trained, validated, "loss")),
        (
            "perplexity",
            "Perplexity",
            "perplexity, logarithmic",
            True,
            _both(series, trained, validated, "perplexity"),
        ),
        (
            "bleu",
            f"{scores} of the validation split",
            f"{scores}, greedy",
            False,
            [
                series("BLEU", "val", validated, "bleu"),
                series(other, "train", validated, key),
            ],
        ),
        (
            "rate",
            "Learning rate",
            "learning rate",
            False,
            [series("learning rate", "train", trained, "learning_rate")],
        ),
    ]
    return [
        Chart(
            name,
            title,
            _in_words(title, drawn),
            "optimizer step",
            y,
            drawn,
            log=log,
            from_zero=name in ("bleu", "rate"),
            mark=step,
        )
        for name, title, y, log, all_series in wanted
        if (drawn := [each for each in all_series if any(y is not None for y in each.y)])
    ]


def _both(series: Any, trained: list[Record], validated: list[Record], key: str) -> list[Series]:
    return [
        series("training", "train", trained, key),
        series("validation", "val", validated, key),
    ]


def _in_words(title: str, drawn: Sequence[Series]) -> str:
    parts = []
    for each in drawn:
        points = [(x, y) for x, y in zip(each.x, each.y, strict=True) if y is not None]
        (first, at_first), (last, at_last) = points[0], points[-1]
        parts.append(f"{each.name} {at_first:.4g} at step {first}, {at_last:.4g} at step {last}")
    return f"{title}: {'; '.join(parts)}."
