"""Where the points of a sweep come from: a grid has them all at once, a search draws them."""

import statistics
from collections.abc import Sequence
from pathlib import Path

from transformer_cli.errors import ConfigError, RunError
from transformer_cli.jobs.space import Space
from transformer_cli.jobs.study import State, Study, Trial
from transformer_cli.jobs.sweep_file import Point, Sweep, as_node, point_names
from transformer_cli.metrics import METRICS

_MAX_FAILURES = 5
"""Trials that may fail one after the other before the search gives up."""


class Grid:
    """Points that are all known from the start, each trained to its end: nothing to decide."""

    is_over = True
    """Whether no point will be added."""

    def __init__(self, points: list[Point]) -> None:
        self.points = points
        """All points so far."""

    def describe(self, point: Point) -> str:
        """Return a point's name, with its settings if the name does not tell them."""
        return point.name

    def state(self, point: Point) -> State:
        """Return what has become of a point; only of one that runs, more is to be trained."""
        return "running"

    def extend(self) -> bool:
        """Add a point; return whether there was one to add."""
        return False


class Search(Grid, Study):
    """The trials of a search as points, without those whose settings do not go together."""

    def __init__(self, sweep: Sweep, space: Space, metric: str, directory: Path) -> None:
        """Open the search that is recorded in ``directory``, or begin one, judged by ``metric``."""
        Grid.__init__(self, [])
        settings = sweep.settings
        seed = sweep.config_of(sweep.samples[0]).seed
        judged_by = {"metric": metric, "seeds": settings.num_seeds}
        sign = METRICS[metric].rank(1.0)
        Study.__init__(
            self, directory, space, settings.sampler, seed, settings.prune, judged_by, sign
        )
        self._sweep = sweep
        self._failures = 0
        self.is_over = False
        for trial in self.trials:
            self._add(trial)

    def describe(self, point: Point) -> str:
        """Return a trial's name and settings."""
        return f"{point.name} ({point_names([point.nodes])[0]})"

    def state(self, point: Point) -> State:
        """Return what has become of a trial."""
        return self.trials[point.number].state

    def extend(self) -> bool:
        """Begin another trial; return whether there was one to begin.

        Raises:
            RunError: the last trials have all failed.
        """
        limit = self._sweep.settings.trials
        if self._failures >= _MAX_FAILURES and len(self.trials) < limit:
            raise RunError(
                f"the last {self._failures} trials have all failed; mend the cause, which the logs "
                "in jobs/ in the sweep's directory tell, and start it again"
            )
        while not self.is_over:
            trial = self.ask(limit)
            if trial is None:
                self.is_over = True
            elif self._add(trial):
                return True
        return False

    def _add(self, trial: Trial) -> bool:
        """Make a point of a trial, which fails if its settings do not go together."""
        places = {key: dimension.place for key, dimension in self.space.items()}
        nodes = {key: as_node(value, places[key]) for key, value in trial.values.items()}
        point = Point(f"trial-{trial.number + 1:03}", nodes, trial.number)
        try:
            self._sweep.config_of(point)
        except ConfigError as error:
            self.end(trial.number, "fail", why=str(error))
            return False
        self.points.append(point)
        return True

    def complete(self, point: Point, scores: Sequence[float]) -> None:
        """End a trial with the mean of its runs' scores, of those that were validated."""
        if not scores:
            self.fail(point, "it was not validated")
            return
        self._failures = 0
        self.end(point.number, "complete", statistics.fmean(scores))

    def fail(self, point: Point, why: str) -> None:
        """End a trial of which a run has failed."""
        self._failures += 1
        self.end(point.number, "fail", why=why)
