"""Reads numbers from the records of metrics.jsonl, which users may have edited."""

import math
from collections.abc import Iterable
from contextlib import suppress

from transformer_cli.config.choices import METRICS
from transformer_cli.runs.metrics_log import Record

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
