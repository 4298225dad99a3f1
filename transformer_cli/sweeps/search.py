"""A search as the plan of a sweep uses it: trials as points."""

import statistics
import time

from transformer_cli.config.setting_tree import Node
from transformer_cli.errors import ConfigError, RunError
from transformer_cli.sweeps.directory import SweepDirectory
from transformer_cli.sweeps.points import Point, as_node
from transformer_cli.sweeps.space import SearchSpace
from transformer_cli.sweeps.study import Study, Trial
from transformer_cli.sweeps.sweep_file import Sweep

_PREFIX = "trial-"
_STALE_SECONDS = 1.0
"""How old the trials may be that a look at them shows; other workers add to them."""
_MOST_FAILURES = 5
"""Trials that may fail one after the other before a worker gives up."""


class Search:
    """The trials of a sweep's search, without those whose settings do not go together."""

    def __init__(
        self, sweep: Sweep, space: SearchSpace, metric: str, directory: SweepDirectory
    ) -> None:
        """Open a search, or begin one.

        Args:
            sweep: what it varies, and how.
            space: the same, of its section ``search``.
            metric: what trials are judged by.
            directory: where it is recorded.
        """
        settings = sweep.settings
        seed = sweep.config_of(sweep.samples[0]).seed
        judged_by = {"metric": metric, "seeds": settings.num_seeds}
        # The study makes its values large.
        self._sign = -1.0 if metric == "loss" else 1.0
        self._sweep = sweep
        self._space = space
        self._study = Study.open(
            directory.path, space, settings.sampler, seed, settings.prune, judged_by
        )
        self._trials: list[Trial] = []
        self._read_at = -_STALE_SECONDS
        self._reported: dict[str, int] = {}
        self._problems: dict[int, str | None] = {}
        self._failures = 0
        self.is_over = False
        """Whether no trial will be added."""

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
        return [self._point(each) for each in self.trials if self._problem(each) is None]

    def is_ended(self, point: str) -> bool:
        """Return whether a trial is told: complete, pruned or failed."""
        return self._trial(point).state != "running"

    def extend(self) -> bool:
        """Begin another trial; return whether there was one to begin.

        Raises:
            RunError: the last trials have all failed.
        """
        if len(self.trials) >= self._sweep.settings.trials:
            self.is_over = True
        elif self._failures >= _MOST_FAILURES:
            raise RunError(
                f"the last {self._failures} trials have all failed; mend the cause, which "
                "failures/ and logs/ in the sweep's directory tell, and start it again"
            )
        while not self.is_over:
            asked = self._study.ask(self._sweep.settings.trials)
            self._forget()
            if asked is None:
                self.is_over = True
            elif (problem := self._problem(self.trials[asked.number])) is None:
                return True
            else:
                self._study.tell_failed(asked.number, problem)
        return False

    def complete(self, point: str, scores: list[float], validations: list[float]) -> None:
        """End a trial whose runs are all done.

        Args:
            point: its name.
            scores: the metric of each run that was validated.
            validations: the metric at each validation of the first seed, by which later trials are
                pruned.
        """
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

    def should_prune(self, point: str, validations: list[float]) -> bool:
        """Return whether a trial is to be stopped, given its first seed's validations so far."""
        return self._report(point, validations) and self._study.should_prune(
            self._trial(point).number
        )

    def prune(self, point: str) -> None:
        """End a trial that ``should_prune`` was true of."""
        self._study.tell_pruned(self._trial(point).number)
        self._forget()

    def _report(self, point: str, validations: list[float]) -> bool:
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
        nodes: dict[str, Node] = {
            key: as_node(value, self._space.dimensions[key].place)
            for key, value in trial.values.items()
        }
        return Point(f"{_PREFIX}{trial.number + 1:03}", nodes)
