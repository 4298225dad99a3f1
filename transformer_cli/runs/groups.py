"""Groups of runs that differ in their seeds only, and what a sweep has recorded of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from transformer_cli.errors import RunError
from transformer_cli.foreign_files import read_small
from transformer_cli.metrics import RankName
from transformer_cli.runs.contents import SWEEP_PLAN
from transformer_cli.runs.directory import RunDirectory

# They are names of directories below the sweep's.
_Name = Annotated[str, Field(pattern=r"^[^/\\\x00]+$")]


class _Plan(BaseModel):
    """Schema of plan.json."""

    model_config = ConfigDict(strict=True)

    points: list[_Name]
    seeds: list[NonNegativeInt]
    reference: str
    metric: RankName
    evaluate: list[_Name]


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
        return _Plan.model_validate_json(read_small(path)).model_dump()
    except OSError as error:
        raise RunError(f"{path}: missing; run the sweep's command again") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        said = f"{key}: {first['msg']}" if key else first["msg"]
        raise RunError(f"{path}: damaged, {said}; run the sweep's command again") from error
