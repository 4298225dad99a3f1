"""What a run was trained with, by the sessions that it has recorded."""

from collections.abc import Iterable
from typing import Any

from transformer_cli.runs.metrics_log import SESSION_KIND, Record

_UNKNOWN = "not recorded"
_ENVIRONMENT = ("device", "precision", "threads", "processes", "torch", "transformer_cli", "python")


def environment_of_training(
    records: Iterable[Record], step: int | None = None
) -> dict[str, object] | None:
    """Return a run's environment up to a step, or to the end; None: it is not recorded.

    If sessions differ, a value lists theirs in order.
    """
    # A session that ended without a checkpoint has a successor at the same step.
    sessions = {
        record["step"]: record
        for record in records
        if record["kind"] == SESSION_KIND and (step is None or record["step"] < step)
    }
    if not sessions:
        return None
    unrecorded = [_UNKNOWN] if min(sessions) else []
    environment: dict[str, object] = {}
    for key in _ENVIRONMENT:
        values: list[Any] = [session.get(key) for session in sessions.values()]
        known = [value if isinstance(value, str | int) else _UNKNOWN for value in values]
        distinct = list(dict.fromkeys([*unrecorded, *known]))
        environment[key] = distinct[0] if len(distinct) == 1 else ", then ".join(map(str, distinct))
    return environment
