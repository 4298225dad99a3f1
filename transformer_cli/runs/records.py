"""Read the records of metrics.jsonl."""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Record = dict[str, Any]
METRIC_NAMES = {"bleu": "BLEU", "bleu_lc": "BLEU lowercased", "chrf": "chrF", "loss": "loss"}
"""What a best checkpoint may be chosen by, as a validation's record and as a person calls it."""
_MEASURED = (*METRIC_NAMES, "perplexity")


def read_records(path: Path) -> list[Record]:
    """Return the records of a metrics.jsonl; none if there is no such file.

    Invalid lines are skipped: the last one may be incomplete.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = []
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and isinstance(record.get("step"), int) and "kind" in record:
            found.append(record)
    return found


def validations(records: Iterable[Record]) -> list[Record]:
    """Return the steps and metrics of validations; invalid metrics are None."""
    return [
        {"step": each["step"], **{key: number(each, key) for key in _MEASURED}}
        for each in records
        if each["kind"] == "validation"
    ]


def best_score(scores: Iterable[float], metric: str) -> float | None:
    """Return the best of a metric's scores: the highest, but of the loss the lowest."""
    return (min if metric == "loss" else max)(scores, default=None)


def number(record: Record, key: str) -> float | None:
    """Return a record's number; None if it is missing or not finite."""
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:  # an integer too large for a float
        return None
