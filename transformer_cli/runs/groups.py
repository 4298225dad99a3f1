"""Groups of runs that differ in their seeds only, and what a sweep has recorded of them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer_cli.errors import RunError
from transformer_cli.foreign_files import read_small
from transformer_cli.runs.contents import SWEEP_PLAN
from transformer_cli.runs.directory import RunDirectory

_PLAN_KEYS = ("points", "seeds", "reference", "metric", "evaluate")


@dataclass(frozen=True)
class RunGroup:
    """One setting, trained with several seeds."""

    name: str
    runs: tuple[RunDirectory, ...]
    """At least one."""


def read_sweep_plan(sweep: Path) -> dict[str, Any]:
    """Return what a sweep has recorded of its points; see ``record_plan`` in sweeps/results.py.

    Raises:
        RunError: plan.json is missing or damaged.
    """
    path = sweep / SWEEP_PLAN
    try:
        plan = json.loads(read_small(path))
        return {key: plan[key] for key in _PLAN_KEYS}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path}: missing or damaged; run the sweep's command again") from error
