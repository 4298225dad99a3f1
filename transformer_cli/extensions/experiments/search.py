"""Where the points of a sweep come from: a grid has them all at once, a search draws them."""

import statistics
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Literal, cast

from transformer_cli.base.errors import ConfigError, RunError
from transformer_cli.base.locations import open_regular
from transformer_cli.base.metrics import METRICS
from transformer_cli.base.packages import import_extra
from transformer_cli.extensions.experiments.sweep_file import (
    Point,
    Space,
    Sweep,
    as_node,
    point_names,
)

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

Sampler = Literal["tpe", "random"]
Prune = Literal["median", "halving", "none"]
State = Literal["running", "complete", "pruned", "fail"]  # Optuna's names

JOURNAL = "study.journal"
_NAME = "sweep"
_MAX_FAILURES = 5  # trials that may fail one after the other before the search gives up
_RANDOM_TRIALS = 10  # trials that TPE draws at random, before it has seen enough
_DRAWS = 10  # how often to draw while what comes was tried before
# The first validations are no evidence: the learning rate still rises, and BLEU is near 0.
_FIRST_STEP = 3  # the first validation at which a trial may be pruned
_MEDIAN_TRIALS = 5  # complete trials that the median rule needs
_REDUCTION_FACTOR = 3
"""Successive halving compares at validations 3, 9, 27, and continues with the best third."""
# Attributes of a study and its trials, beside those of Optuna.
_SETTINGS, _PRUNED_AT, _WHY = "settings", "pruned_at", "why"


@dataclass(frozen=True)
class Trial:
    """A trial as the journal has it: its number, from 0, and its settings by dotted key."""

    number: int
    values: dict[str, object]
    state: State
    value: float | None = None  # the metric; where it was pruned, that of its last validation
    why: str | None = None


class Study:
    """A search in a sweep's directory, which this process has locked.

    What ``ask`` draws depends on the seed, the trial's number and what the journal says of the
    trials before it; not on the process that asks. Reporting and ending twice are no errors, and
    the first counts: a process that was killed may have done so already.
    """

    def __init__(
        self,
        directory: Path,
        space: Space,
        sampler: Sampler,
        seed: int,
        prune: Prune,
        judged_by: Mapping[str, object] = MappingProxyType({}),
        sign: float = 1.0,
    ) -> None:
        """Open the study in ``directory``, of the same space, sampler and seed, or begin one.

        ``judged_by`` is what a trial's value depends on besides its settings. ``sign`` is -1 if the
        metric is the better, the lower it is.
        """
        self._optuna = optuna = import_optuna()
        self.space, self._sampler, self._seed, self._sign = space, sampler, seed, sign
        self._reported: dict[int, int] = {}
        self._kinds = {
            key: dimension.distribution(optuna.distributions)
            for key, dimension in sorted(space.items())
        }
        directory.mkdir(parents=True, exist_ok=True)
        _drop_torn_line(directory / JOURNAL)
        journal = optuna.storages.journal
        # Not Optuna's lock, which is a file: one process works on a sweep.
        backend = journal.JournalFileBackend(str(directory / JOURNAL), threading.Lock())
        try:
            self._storage = optuna.storages.JournalStorage(backend)
            self._study = optuna.create_study(
                study_name=_NAME,
                storage=self._storage,
                direction="maximize",
                pruner=_pruner(prune, optuna.pruners),
                load_if_exists=True,
            )
        except (ValueError, LookupError, TypeError, AssertionError) as error:  # Optuna's
            raise RunError(
                f"{directory / JOURNAL}: damaged ({error}); restore it, or give the search a sweep "
                "of its own"
            ) from error
        ranges = {f"search.{key}": each.describe() for key, each in space.items()}
        settings = {"sampler": sampler, "seed": seed, **ranges, **judged_by}
        if _SETTINGS not in self._study.user_attrs:
            self._study.set_user_attr(_SETTINGS, settings)
        earlier = self._study.user_attrs[_SETTINGS]
        for key in sorted(earlier.keys() | settings.keys()):
            if earlier.get(key) != settings.get(key):
                raise ConfigError(
                    f"{directory / JOURNAL}: this search began with {key} "
                    f"{earlier.get(key, 'left out')}, not {settings.get(key, 'left out')}; put "
                    "that back, or give the new search a sweep of its own"
                )
        self.trials = [self._read(trial) for trial in self._history()]  # all trials, by number

    def ask(self, limit: int) -> Trial | None:
        """Begin the next trial; None: there are ``limit``, or the space has no other point."""
        number = len(self.trials)
        point = self._draw(number) if number < limit else None
        if point is None:
            return None
        # One line of the journal, so there is no trial without its point.
        trial = self._optuna.trial
        state = trial.TrialState.RUNNING
        self._study.add_trial(
            trial.create_trial(state=state, params=point, distributions=self._kinds)
        )
        self.trials.append(self._read(self._history()[number]))
        return self.trials[number]

    def _draw(self, number: int) -> dict[str, object] | None:
        """Return the point of a trial as the study records it; None if all were tried.

        A point that was tried before is drawn again, since it would be the same run. Where that
        does not help, in a space with few points, the first of them that is left comes.
        """
        history = self._history()
        tried = [trial.params for trial in history]
        point: dict[str, object] = {}
        for attempt in range(_DRAWS):
            digest = sha256(repr((self._seed, number, attempt)).encode()).digest()
            sampler = _sampler(self._sampler, int.from_bytes(digest[:4]), self._optuna.samplers)
            # A study in memory, so that a trial can be recorded as a whole, with rounded numbers.
            study = self._optuna.create_study(direction="maximize", sampler=sampler)
            study.add_trials(history)
            drawn = study.ask(self._kinds).params
            point = {key: kind.record(drawn[key]) for key, kind in self.space.items()}
            if point not in tried:
                return point
        axes = [kind.records for kind in self.space.values() if kind.records is not None]
        if len(axes) < len(self.space):  # it has points without end
            return point
        points = (dict(zip(self.space, values, strict=True)) for values in product(*axes))
        return next((point for point in points if point not in tried), None)

    def report(self, number: int, values: Sequence[float]) -> bool:
        """Record a trial's metric at each validation so far; return whether there are new ones."""
        trial = self._history()[number]
        for step, value in enumerate(values, start=1):
            if not trial.state.is_finished() and step not in trial.intermediate_values:
                trial_id = self._trial_id(number)
                self._storage.set_trial_intermediate_value(trial_id, step, self._sign * value)
        is_news = len(values) > self._reported.get(number, 0)
        self._reported[number] = len(values)
        return is_news

    def should_prune(self, number: int) -> bool:
        """Return whether a trial's training is to be stopped.

        Once it is so it remains so; and so it is of one that was pruned or failed.
        """
        trial = self._history()[number]
        if trial.state.is_finished():
            return trial.state.name != "COMPLETE"
        if _PRUNED_AT in trial.user_attrs:
            return True
        if not self._study.pruner.prune(self._study, trial):
            return False
        # Successive halving would not say so again: each of its rungs decides once.
        self._storage.set_trial_user_attr(self._trial_id(number), _PRUNED_AT, trial.last_step)
        return True

    def end(
        self, number: int, state: State, value: float | None = None, why: str | None = None
    ) -> None:
        """End a trial that runs: a complete one with its metric, a failed one with why."""
        if self.trials[number].state != "running":
            return
        if why is not None:
            self._storage.set_trial_user_attr(self._trial_id(number), _WHY, why)
        value = None if value is None else self._sign * value
        self._study.tell(number, value, state=self._optuna.trial.TrialState[state.upper()])
        self.trials[number] = self._read(self._history()[number])

    def _read(self, trial: "FrozenTrial") -> Trial:
        return Trial(
            trial.number,
            {key: kind.decode(trial.params[key]) for key, kind in self.space.items()},
            cast(State, trial.state.name.lower()),
            trial.value,
            trial.user_attrs.get(_WHY),
        )

    def _history(self) -> "Sequence[FrozenTrial]":
        trials: Sequence[FrozenTrial] = self._study.get_trials(deepcopy=False)
        return trials

    def _trial_id(self, number: int) -> Any:
        """Return the storage's own number of a trial, by Optuna's public interface."""
        study_id = self._storage.get_study_id_from_name(_NAME)
        return self._storage.get_trial_id_from_study_id_trial_number(study_id, number)


def _drop_torn_line(journal: Path) -> None:
    """Remove a last line that a kill has cut off, as Optuna would read no further."""
    with open_regular(journal, "a+b") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


def import_optuna() -> ModuleType:
    """Import Optuna, without its messages."""
    optuna = import_extra("optuna", "sweep", "search")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _sampler(sampler: Sampler, seed: int, samplers: Any) -> Any:
    if sampler == "random":
        return samplers.RandomSampler(seed=seed)
    # Settings of a training depend on each other, so they are drawn together (multivariate). Trials
    # that still run count as bad ones (constant liar): runs side by side keep apart.
    return samplers.TPESampler(
        n_startup_trials=_RANDOM_TRIALS, multivariate=True, constant_liar=True, seed=seed
    )


def _pruner(prune: Prune, pruners: Any) -> Any:
    if prune == "median":
        return pruners.MedianPruner(n_startup_trials=_MEDIAN_TRIALS, n_warmup_steps=_FIRST_STEP)
    if prune == "halving":
        return pruners.SuccessiveHalvingPruner(
            min_resource=_FIRST_STEP, reduction_factor=_REDUCTION_FACTOR
        )
    return pruners.NopPruner()


class Grid:
    """Points that are all known from the start, each trained to its end: nothing to decide."""

    is_over = True  # whether no point will be added

    def __init__(self, points: list[Point]) -> None:
        self.points = points  # all points so far

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
        """Begin another trial; return whether there was one to begin."""
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

    @property
    def unfit(self) -> list[Trial]:
        """The trials that are no points, as their settings do not go together."""
        numbers = {point.number for point in self.points}
        return [trial for trial in self.trials if trial.number not in numbers]

    def complete(self, point: Point, scores: Sequence[float]) -> None:
        """End a trial with the mean of its runs' scores, of those that were validated."""
        if not scores:
            self.fail(point, "it was not validated")
            return
        self._failures = 0
        self.end(point.number, "complete", statistics.fmean(scores))

    def prune(self, point: Point) -> None:
        """End a trial that is not worth its time."""
        self._failures = 0
        self.end(point.number, "pruned")

    def fail(self, point: Point, why: str) -> None:
        """End a trial of which a run has failed."""
        self._failures += 1
        self.end(point.number, "fail", why=why)
