"""What was measured while a run was trained: the records of its metrics.jsonl, read."""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Record = dict[str, Any]
_MEASURED = ("loss", "perplexity", "bleu", "bleu_lc")


def read_records(path: Path) -> list[Record]:
    """The records of a metrics.jsonl, each with its kind and step; none if there is no such file.

    Lines that are no records are passed over: the last one may be half written.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
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
    """The steps and numbers of validations; None stands for a number that is none."""
    return [
        {"step": each["step"], **{key: number(each, key) for key in _MEASURED}}
        for each in records
        if each["kind"] == "validation"
    ]


def number(record: Record, key: str) -> float | None:
    """A number, or None for what is none or not finite, which JSON cannot say."""
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:  # a whole number beyond all floats
        return None
