"""What a run of a sweep has reached, from its records."""

from dataclasses import dataclass
from pathlib import Path

from transformer_cli.metrics import METRICS
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.records import Record, number, read_records, validations


@dataclass(frozen=True)
class FinishedRun:
    """What a run has reached."""

    score: float | None
    """The metric at its best validation, in points; None: it was not validated."""
    seconds: float
    """Time of its training."""


def read_finished_run(run: Path, metric: str) -> FinishedRun:
    """Read what a run has reached, whether it is finished or not.

    Args:
        run: its directory.
        metric: a key of ``METRICS``.
    """
    records = read_records(RunDirectory(run).metrics)
    scores = _scores(records, metric)
    seconds = [found for each in records if (found := number(each, "seconds")) is not None]
    return FinishedRun(METRICS[metric].best(scores), max(seconds, default=0.0))


def read_scores(run: Path, metric: str) -> list[float]:
    """Return the metric at each validation so far, in their order."""
    return _scores(read_records(RunDirectory(run).metrics), metric)


def _scores(records: list[Record], metric: str) -> list[float]:
    return [score for each in validations(records) if (score := each[metric]) is not None]
