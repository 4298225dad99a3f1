"""Groups of runs that differ only in their seeds, and a sweep's record of them."""

from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from transformer_cli.base.artifact import Record, read_record
from transformer_cli.base.errors import RunError
from transformer_cli.base.files import read_small
from transformer_cli.base.metrics import RankName
from transformer_cli.runs.directory import RunDirectory

MARK, PLAN, RUNS = "sweep.json", "plan.json", "runs"
"""In the directory of a sweep."""

# These are names of directories in the sweep's.
_Name = Annotated[str, Field(pattern=r"^[^/\\\x00]+$")]


class SweepRecord(BaseModel):
    """The content of plan.json: a sweep's plan, for commands that do not read the sweep's file."""

    model_config = ConfigDict(strict=True)

    points: list[_Name]
    seeds: list[NonNegativeInt]
    reference: str
    metric: RankName
    evaluate: list[_Name]
    made_of: dict[str, dict[str, str]] = {}  # see ``SweepPlan.check_trained_alike``


class JobRecord(Record):
    """The inputs of a job of a sweep or a distillation, and how it went."""

    state: Literal["begun", "done", "failed", "pruned"] = "begun"
    options: list[str] = Field(default=[])  # without which it is not resumed
    message: str = ""  # why it failed
    seconds: float | None = None  # None: it was interrupted, or is not done


def job_file(directory: Path, name: str, ending: str = ".json") -> Path:
    """Return the path of a job's record, or of another of its files."""
    return directory / "jobs" / f"{name}{ending}"


def run_name(point: str, seed: int | str) -> str:
    """Return the name of the job that trains a run: its path in the sweep's directory."""
    return f"{RUNS}/{point}/seed-{seed}"


def scores_name(split: str, point: str, seed: int) -> str:
    """Return the name of the job that scores a run on a split: the path of its files."""
    return f"scores/{split}/{point}/seed-{seed}"


def read_run_state(sweep: Path, run: str) -> str | None:
    """Return the ``JobRecord.state`` of a run; None: it never began."""
    record = read_record(job_file(sweep, run), JobRecord)
    return record.state if record is not None and (sweep / run).is_dir() else None


class RunGroup(NamedTuple):
    """One setting, trained with several seeds."""

    name: str
    runs: tuple[RunDirectory, ...]  # at least one


def read_sweep_plan(sweep: Path) -> SweepRecord:
    """Return a sweep's record of its points."""
    path = sweep / PLAN
    try:
        return SweepRecord.model_validate_json(read_small(path))
    except OSError as error:
        raise RunError(f"{path}: missing; run the sweep's command again") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        said = f"{key}: {first['msg']}" if key else first["msg"]
        raise RunError(f"{path}: damaged, {said}; run the sweep's command again") from error
