"""Read the records of metrics.jsonl."""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Record = dict[str, Any]
_MEASURED = ("loss", "perplexity", "bleu", "bleu_lc")


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
        if isinstance(record, dict) and isinstance(record.get("kind"), str) and _has_step(record):
            found.append(record)
    return found


def _has_step(record: Record) -> bool:
    step = record.get("step")
    return isinstance(step, int) and 0 <= step < 2**63  # numpy and TensorBoard have no larger ones


def validations(records: Iterable[Record]) -> list[Record]:
    """Return the steps and metrics of validations; invalid metrics are None."""
    return [
        {"step": each["step"], **{key: number(each, key) for key in _MEASURED}}
        for each in records
        if each["kind"] == "validation"
    ]


def number(record: Record, key: str) -> float | None:
    """Return a record's number; None if it is missing or not finite."""
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:  # an integer too large for a float
        return None
