"""How far a sweep is, and what its points have reached."""

import statistics
from dataclasses import dataclass
from functools import cached_property

from transformer_cli.sweeps.finished import FinishedRun
from transformer_cli.sweeps.plan import Plan


@dataclass(frozen=True)
class PointStatus:
    """A point of a sweep."""

    name: str
    runs: list[FinishedRun]
    failed: int
    is_pruned: bool = False

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


def read_status(plan: Plan) -> list[PointStatus]:
    """Return the states of all points, in the plan's order."""
    runs: dict[str, list[FinishedRun]] = {point.name: [] for point in plan.points}
    failed = dict.fromkeys(runs, 0)
    for task, _ in plan.train_tasks():
        if plan.is_done(task):
            runs[task.point].append(plan.read_run(task))
        elif plan.failure(task) is not None:
            failed[task.point] += 1
    return [
        PointStatus(name, runs[name], failed[name], plan.directory.is_pruned(name)) for name in runs
    ]


def best_point(points: list[PointStatus], metric: str) -> PointStatus | None:
    """Return the point with the best mean of a metric; None if no run was validated yet."""
    scored = [(point.mean, point) for point in points if point.mean is not None]
    best = min if metric == "loss" else max
    return best(scored, key=lambda each: each[0])[1] if scored else None


def seconds_left(points: list[PointStatus], num_runs: int, jobs: int) -> float | None:
    """Estimate the time until all runs are trained, from those that are; None if there are none."""
    seconds = [run.seconds for point in points for run in point.runs]
    if not seconds:
        return None
    others = sum(point.failed + point.is_pruned for point in points)
    return statistics.fmean(seconds) * max(0, num_runs - len(seconds) - others) / jobs
