"""A search as the plan and the worker of a sweep use it: trials as points."""

import statistics
import time

from transformer_cli.config.setting_tree import Node
from transformer_cli.sweeps.directory import SweepDirectory
from transformer_cli.sweeps.points import Point, as_node
from transformer_cli.sweeps.settings import SweepSettings
from transformer_cli.sweeps.space import SearchSpace
from transformer_cli.sweeps.study import Study, Trial

_STALE_SECONDS = 1.0
"""How old the trials may be that a look at them shows; other workers add to them."""


class Search:
    """The trials of a sweep's search."""

    def __init__(
        self, space: SearchSpace, settings: SweepSettings, seed: int, directory: SweepDirectory
    ) -> None:
        """Open a search, or begin one.

        Args:
            space: what it varies.
            settings: how.
            seed: of its draws.
            directory: where it is recorded.
        """
        self._space = space
        self._limit = settings.trials
        self._study = Study.open(directory.path, space, settings.sampler, seed, settings.prune)
        self._trials: list[Trial] = []
        self._read_at = -_STALE_SECONDS
        self.is_over = False
        """Whether no trial will be added."""

    @property
    def points(self) -> list[Point]:
        """All trials as points."""
        return [self._point(each) for each in self.trials]

    def is_ended(self, point: str) -> bool:
        """Return whether a trial is told: complete, pruned or failed."""
        return self._trial(point).state != "running"

    def extend(self) -> bool:
        """Begin another trial; return whether there was one to begin."""
        if self.is_over:
            return False
        self.is_over = self._study.ask(self._limit) is None
        self._read_at = -_STALE_SECONDS
        return not self.is_over

    def complete(self, point: str, scores: list[float], validations: list[float]) -> None:
        """End a trial whose runs are all done.

        Args:
            point: its name.
            scores: the metric of each run that was validated.
            validations: the metric at each validation of the first seed, by which later trials are
                pruned.
        """
        number = self._trial(point).number
        self._report(number, validations)
        if scores:
            self._study.tell(number, statistics.fmean(scores))
        else:
            self._study.tell_failed(number, "it was not validated")
        self._read_at = -_STALE_SECONDS

    def fail(self, point: str, why: str) -> None:
        """End a trial of which a run has failed."""
        self._study.tell_failed(self._trial(point).number, why)
        self._read_at = -_STALE_SECONDS

    def should_prune(self, point: str, validations: list[float]) -> bool:
        """Return whether a trial is to be stopped, given its first seed's validations so far."""
        number = self._trial(point).number
        self._report(number, validations)
        if not self._study.should_prune(number):
            return False
        self._study.tell_pruned(number)
        self._read_at = -_STALE_SECONDS
        return True

    def _report(self, number: int, validations: list[float]) -> None:
        for step, score in enumerate(validations, 1):
            self._study.report(number, step, score)

    def _trial(self, point: str) -> Trial:
        number = int(point.removeprefix(_PREFIX))
        trials = self._trials if number <= len(self._trials) else self.trials
        return trials[number - 1]

    @property
    def trials(self) -> list[Trial]:
        """All trials, as they were a moment ago."""
        if time.monotonic() - self._read_at > _STALE_SECONDS:
            self._trials = self._study.trials()
            self._read_at = time.monotonic()
        return self._trials

    def _point(self, trial: Trial) -> Point:
        nodes: dict[str, Node] = {
            key: as_node(value, self._space.dimensions[key].place)
            for key, value in trial.values.items()
        }
        return Point(f"{_PREFIX}{trial.number + 1:03}", nodes)


_PREFIX = "trial-"
