"""Read the records of metrics.jsonl."""

import json
import math
import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from transformer_cli.errors import RunError
from transformer_cli.foreign_files import open_regular
from transformer_cli.metrics import METRICS

Record = dict[str, Any]
_MAX_BYTES = 1 << 26
"""Records of ten million steps; each takes several times its size of memory."""
_MAX_LINE_BYTES = 1 << 20
_MEASURED = (*(name for name, metric in METRICS.items() if not metric.is_thorough), "perplexity")


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a metrics.jsonl with their line ends; none if there is no such file.

    Raises:
        RunError: it cannot be read, is no regular file, or is far too large.
    """
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > _MAX_BYTES:
                raise RunError(f"{path}: has more than {_MAX_BYTES >> 20} MiB; move it elsewhere")
            yield from iter(partial(file.readline, _MAX_LINE_BYTES), b"")
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise RunError(
            f"{path}: cannot be read ({error.strerror}); restore it, or delete it"
        ) from error


def read_records(path: Path) -> list[Record]:
    """Return the records of a metrics.jsonl; none if there is no such file.

    Invalid lines are skipped: the last one may be incomplete.

    Raises:
        RunError: as ``read_lines``.
    """
    found = []
    for line in read_lines(path):
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
