"""The environment of training and scoring: device, precision, threads, processes, versions."""

import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch

from transformer_cli.config.differences import Difference
from transformer_cli.packages import __version__
from transformer_cli.runs.records import Record

SESSION_KIND = "session"
"""Kind of the record that each session of a training begins with."""
_UNKNOWN = "not recorded"


@dataclass(frozen=True)
class Environment:
    """What results depend on besides settings, text and weights."""

    device: str
    """The GPU's name, or 'cpu'."""
    precision: str
    """Compute dtype."""
    threads: int
    """CPU threads per process."""
    processes: int
    torch: str
    transformer_cli: str
    python: str


def describe_environment(
    device: torch.device, precision: torch.dtype, processes: int = 1
) -> Environment:
    """Return this process' environment; ``processes`` is the world size."""
    return Environment(
        torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        str(precision).removeprefix("torch."),
        torch.get_num_threads(),
        processes,
        str(torch.__version__),
        __version__,
        platform.python_version(),
    )


def environment_of_training(
    records: Iterable[Record], step: int | None = None
) -> dict[str, object] | None:
    """Return a run's environment, by the names of ``Environment``; None: not recorded.

    If sessions differ, a value lists theirs in order.

    Args:
        records: of metrics.jsonl.
        step: up to this step; None: to the end.
    """
    # A session that ended without a checkpoint has a successor at the same step.
    sessions = {
        each["step"]: each
        for each in records
        if each["kind"] == SESSION_KIND and (step is None or each["step"] < step)
    }
    if not sessions:
        return None
    before = [_UNKNOWN] if min(sessions) else []  # trained by a version that did not record it
    return {
        field.name: _in_order([*before, *(_value(each, field.name) for each in sessions.values())])
        for field in fields(Environment)
    }


def _value(record: Record, key: str) -> str | int:
    value: Any = record.get(key)
    return value if isinstance(value, str | int) else _UNKNOWN


def _in_order(values: Sequence[str | int]) -> str | int:
    distinct = list(dict.fromkeys(values))
    return distinct[0] if len(distinct) == 1 else ", then ".join(map(str, distinct))


def changed_environment(records: Iterable[Record], now: Environment) -> list[Difference]:
    """Return the differences from the last session; none if that is not recorded."""
    last = [each for each in records if each["kind"] == SESSION_KIND][-1:]
    return [
        Difference(key, last[0].get(key), value)
        for key, value in asdict(now).items()
        if last and last[0].get(key) != value
    ]
