"""Where the points of a sweep come from: a grid has them all at once, a search draws them."""

import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from transformer_cli.errors import ConfigError, RunError
from transformer_cli.jobs.space import SearchSpace
from transformer_cli.jobs.study import Study, Trial
from transformer_cli.jobs.sweep_file import Point, Sweep, as_node, point_names

_PREFIX = "trial-"
_STALE_SECONDS = 1.0
"""How old the trials may be that a look at them shows; other processes add to them."""
_MAX_FAILURES = 5
"""Trials that may fail one after the other before the search gives up."""


class Grid:
    """Points that are all known from the start, each trained to its end: nothing to decide."""

    def __init__(self, points: list[Point]) -> None:
        self._points = points
        self.is_over = True
        """Whether no point will be added."""

    @property
    def points(self) -> list[Point]:
        """All points so far."""
        return self._points

    @property
    def open_points(self) -> list[Point]:
        """Those of which ``complete``, ``fail`` or ``prune`` has to say how they ended."""
        return []

    def describe(self, point: Point) -> str:
        """Return a point's name, with its settings if the name does not tell them."""
        return point.name

    def is_ended(self, point: str) -> bool:
        """Return whether nothing more is to be trained of a point."""
        return False

    def is_pruned(self, point: str) -> bool:
        """Return whether a point was given up early."""
        return False

    def extend(self) -> bool:
        """Add a point; return whether there was one to add."""
        return False

    def complete(self, point: str, scores: Sequence[float], validations: Sequence[float]) -> None:
        """End a point whose runs are all done.

        Args:
            point: its name.
            scores: the metric of each run that was validated.
            validations: the metric at each validation of the first seed, by which later points are
                pruned.
        """

    def fail(self, point: str, why: str) -> None:
        """End a point of which a run has failed."""

    def should_prune(self, point: str, validations: Sequence[float]) -> bool:
        """Return whether a point is to be given up, given its first seed's validations so far."""
        return False

    def prune(self, point: str) -> None:
        """End a point that ``should_prune`` was true of."""


class Search(Grid):
    """The trials of a search as points, without those whose settings do not go together."""

    def __init__(self, sweep: Sweep, space: SearchSpace, metric: str, directory: Path) -> None:
        """Open a search, or begin one.

        Args:
            sweep: what it varies, and how.
            space: the same, of its section ``search``.
            metric: what trials are judged by.
            directory: where it is recorded.
        """
        super().__init__([])
        settings = sweep.settings
        seed = sweep.config_of(sweep.samples[0]).seed
        judged_by = {"metric": metric, "seeds": settings.num_seeds}
        # The study maximizes.
        self._sign = -1.0 if metric == "loss" else 1.0
        self._sweep = sweep
        self._space = space
        self._study = Study(directory, space, settings.sampler, seed, settings.prune, judged_by)
        self._trials: list[Trial] = []
        self._read_at = -_STALE_SECONDS
        self._reported: dict[str, int] = {}
        self._problems: dict[int, str | None] = {}
        self._failures = 0
        self.is_over = False

    @property
    def trials(self) -> list[Trial]:
        """All trials, as they were a moment ago."""
        if time.monotonic() - self._read_at > _STALE_SECONDS:
            self._trials = self._study.trials()
            self._read_at = time.monotonic()
        return self._trials

    @property
    def points(self) -> list[Point]:
        """The trials as points."""
        return [self._point(trial) for trial in self.trials if self._problem(trial) is None]

    @property
    def open_points(self) -> list[Point]:
        """The trials that still run."""
        return [point for point in self.points if not self.is_ended(point.name)]

    def describe(self, point: Point) -> str:
        """Return a trial's name and settings."""
        return f"{point.name} ({point_names([point.nodes])[0]})"

    def is_ended(self, point: str) -> bool:
        """Return whether a trial is told: complete, pruned or failed."""
        return self._trial(point).state != "running"

    def is_pruned(self, point: str) -> bool:
        """Return whether a trial was given up early."""
        return self._trial(point).state == "pruned"

    def extend(self) -> bool:
        """Begin another trial; return whether there was one to begin.

        Raises:
            RunError: the last trials have all failed.
        """
        if len(self.trials) >= self._sweep.settings.trials:
            self.is_over = True
        elif self._failures >= _MAX_FAILURES:
            raise RunError(
                f"the last {self._failures} trials have all failed; mend the cause, which the logs "
                "in jobs/ in the sweep's directory tell, and start it again"
            )
        while not self.is_over:
            trial = self._study.ask(self._sweep.settings.trials)
            self._forget()
            if trial is None:
                self.is_over = True
            elif (problem := self._problem(trial)) is None:
                return True
            else:
                self._study.tell_failed(trial.number, problem)
        return False

    def complete(self, point: str, scores: Sequence[float], validations: Sequence[float]) -> None:
        """End a trial with the mean of its runs' scores."""
        number = self._trial(point).number
        self._report(point, validations)
        if scores:
            self._failures = 0
            self._study.tell(number, self._sign * statistics.fmean(scores))
        else:
            self._failures += 1
            self._study.tell_failed(number, "it was not validated")
        self._forget()

    def fail(self, point: str, why: str) -> None:
        """End a trial of which a run has failed."""
        self._failures += 1
        self._study.tell_failed(self._trial(point).number, why)
        self._forget()

    def should_prune(self, point: str, validations: Sequence[float]) -> bool:
        """Return whether the study gives a trial up."""
        number = self._trial(point).number
        return self._report(point, validations) and self._study.should_prune(number)

    def prune(self, point: str) -> None:
        """End a trial that was given up."""
        self._study.tell_pruned(self._trial(point).number)
        self._forget()

    def _report(self, point: str, validations: Sequence[float]) -> bool:
        """Tell the study of validations that it does not know; return whether there are any."""
        known = self._reported.get(point, 0)
        for step, score in enumerate(validations[known:], known + 1):
            self._study.report(self._trial(point).number, step, self._sign * score)
        self._reported[point] = len(validations)
        return len(validations) > known

    def _trial(self, point: str) -> Trial:
        number = int(point.removeprefix(_PREFIX))
        trials = self._trials if number <= len(self._trials) else self.trials
        return trials[number - 1]

    def _forget(self) -> None:
        self._read_at = -_STALE_SECONDS

    def _problem(self, trial: Trial) -> str | None:
        """Return why a trial's settings do not go together; None if they do."""
        if trial.number not in self._problems:
            try:
                self._sweep.config_of(self._point(trial))
                self._problems[trial.number] = None
            except ConfigError as error:
                self._problems[trial.number] = str(error)
        return self._problems[trial.number]

    def _point(self, trial: Trial) -> Point:
        nodes = {
            key: as_node(value, self._space.dimensions[key].place)
            for key, value in trial.values.items()
        }
        return Point(f"{_PREFIX}{trial.number + 1:03}", nodes)
