"""How far a sweep is, and what its points have reached."""

import statistics
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.records import number, read_records, validations
from transformer_cli.sweeps.plan import Plan


@dataclass(frozen=True)
class FinishedRun:
    """What a finished run has reached."""

    score: float | None
    """The metric at its best validation, in points; None: it was not validated."""
    seconds: float
    """Time of its training."""


@dataclass(frozen=True)
class PointStatus:
    """A point of a sweep."""

    name: str
    runs: list[FinishedRun]
    failed: int

    @cached_property
    def scores(self) -> list[float]:
        """The scores of its runs that have one."""
        return [run.score for run in self.runs if run.score is not None]

    @property
    def mean(self) -> float | None:
        """The mean score over seeds."""
        return statistics.fmean(self.scores) if self.scores else None

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation over seeds; None of fewer than two."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else None


class StatusReader:
    """Reads the points' states again and again; what a finished run has reached is read once."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._finished: dict[Path, FinishedRun] = {}

    def read(self) -> list[PointStatus]:
        """Return all points, in the plan's order."""
        runs: dict[str, list[FinishedRun]] = {point.name: [] for point in self.plan.points}
        failed = dict.fromkeys(runs, 0)
        for task, _ in self.plan.train_tasks():
            if self.plan.is_done(task):
                runs[task.point].append(self._read_run(task.result(self.plan.directory)))
            elif self.plan.failure(task) is not None:
                failed[task.point] += 1
        return [PointStatus(name, runs[name], failed[name]) for name in runs]

    def _read_run(self, path: Path) -> FinishedRun:
        if path not in self._finished:
            self._finished[path] = read_finished_run(RunDirectory(path), self.plan.metric)
        return self._finished[path]


def read_finished_run(run: RunDirectory, metric: str) -> FinishedRun:
    """Read what a run has reached from its records."""
    records = read_records(run.metrics)
    scores = [score for each in validations(records) if (score := each[metric]) is not None]
    seconds = [found for each in records if (found := number(each, "seconds")) is not None]
    return FinishedRun(max(scores, default=None), max(seconds, default=0.0))


def best_point(points: list[PointStatus]) -> PointStatus | None:
    """Return the point with the highest mean; None if no run was validated yet."""
    scored = [(point.mean, point) for point in points if point.mean is not None]
    return max(scored, key=lambda each: each[0])[1] if scored else None


def seconds_left(points: list[PointStatus], num_runs: int, jobs: int) -> float | None:
    """Estimate the time until all runs are trained, from those that are; None if there are none."""
    seconds = [run.seconds for point in points for run in point.runs]
    failed = sum(point.failed for point in points)
    if not seconds:
        return None
    return statistics.fmean(seconds) * (num_runs - len(seconds) - failed) / jobs
