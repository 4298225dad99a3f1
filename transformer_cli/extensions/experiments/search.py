"""The points that a search draws, one after the other, by Optuna."""

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
    Draws,
    Point,
    Prune,
    Space,
    Sweep,
    as_node,
    point_names,
)

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

TrialState = Literal["running", "complete", "pruned", "fail"]  # Optuna's names

JOURNAL = "study.journal"
_NAME = "sweep"
_MAX_FAILURES = 5  # the search gives up when this many trials in a row have failed
_RANDOM_TRIALS = 10  # the first trials that TPE draws at random
_DRAWS = 10  # how often to draw again if a point was tried before
# Earlier validations say little: the learning rate still rises, and BLEU is near 0.
_FIRST_STEP = 3  # the first validation at which a trial may be pruned
_MEDIAN_TRIALS = 5  # complete trials that the median rule needs
_REDUCTION_FACTOR = 3
"""Successive halving compares at validations 3, 9, 27, and continues with the best third."""
# Attributes that we add to Optuna's study and trials.
_SETTINGS, _PRUNED_AT, _WHY = "settings", "pruned_at", "why"


@dataclass(frozen=True)
class Trial:
    """A trial in the journal: its number, from 0, and its settings by dotted key."""

    number: int
    values: dict[str, object]
    state: TrialState
    value: float | None = None  # the metric; of a pruned trial, at its last validation
    why: str | None = None


class Study:
    """Optuna's study of a sweep, in a directory that this process has locked.

    What ``ask`` draws depends on the seed, the trial's number and the earlier trials in the
    journal, not on the process that asks. Reporting or ending something a second time has no
    effect: a process that was killed may already have done it.
    """

    def __init__(
        self,
        directory: Path,
        space: Space,
        draws: Draws,
        seed: int,
        prune: Prune,
        judged_by: Mapping[str, object] = MappingProxyType({}),
        sign: float = 1.0,
    ) -> None:
        """Open the study in ``directory``, which must have the same arguments, or begin one.

        ``judged_by`` is what a trial's value depends on besides its settings. ``sign`` is -1 for a
        metric of which lower values are better.
        """
        self._optuna = optuna = import_optuna()
        self.space, self._draws, self._seed, self._sign = space, draws, seed, sign
        self._kinds = {
            key: dimension.distribution(optuna.distributions)
            for key, dimension in sorted(space.items())
        }
        directory.mkdir(parents=True, exist_ok=True)
        _drop_torn_line(directory / JOURNAL)
        journal = optuna.storages.journal
        # Optuna would lock a file, but only one process works on a sweep.
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
        settings = {"sampler": draws, "seed": seed, **ranges, **judged_by}
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
        """Begin the next trial; None: there are ``limit`` trials, or all points were tried."""
        number = len(self.trials)
        point = self._draw(number) if number < limit else None
        if point is None:
            return None
        # This is one line of the journal, so no trial is ever without its point.
        trial = self._optuna.trial
        state = trial.TrialState.RUNNING
        self._study.add_trial(
            trial.create_trial(state=state, params=point, distributions=self._kinds)
        )
        self.trials.append(self._read(self._history()[number]))
        return self.trials[number]

    def _draw(self, number: int) -> dict[str, object] | None:
        """Return the point of a trial as the study records it; None: all were tried.

        If the point was tried before, draw again, as it would be the same run. If that does not
        help, in a small space, take the first point that is left.
        """
        history = self._history()
        tried = [trial.params for trial in history]
        point: dict[str, object] = {}
        for attempt in range(_DRAWS):
            digest = sha256(repr((self._seed, number, attempt)).encode()).digest()
            sampler = _build_sampler(self._draws, int.from_bytes(digest[:4]), self._optuna.samplers)
            # This study is only in memory: the trial is recorded later, with rounded numbers.
            study = self._optuna.create_study(direction="maximize", sampler=sampler)
            study.add_trials(history)
            drawn = study.ask(self._kinds).params
            point = {key: kind.record(drawn[key]) for key, kind in self.space.items()}
            if point not in tried:
                return point
        axes = [kind.records for kind in self.space.values() if kind.records is not None]
        if len(axes) < len(self.space):  # there is no end of points
            return point
        points = (dict(zip(self.space, values, strict=True)) for values in product(*axes))
        return next((point for point in points if point not in tried), None)

    def report(self, number: int, values: Sequence[float]) -> None:
        """Record a trial's metric at each validation so far."""
        trial = self._history()[number]
        for step, value in enumerate(values, start=1):
            if not trial.state.is_finished() and step not in trial.intermediate_values:
                trial_id = self._trial_id(number)
                self._storage.set_trial_intermediate_value(trial_id, step, self._sign * value)

    def should_prune(self, number: int) -> bool:
        """Return whether a trial's training should be stopped.

        The answer stays True once it was True, and is True for a pruned or failed trial.
        """
        trial = self._history()[number]
        if trial.state.is_finished():
            return trial.state.name != "COMPLETE"
        if _PRUNED_AT in trial.user_attrs:
            return True
        if not self._study.pruner.prune(self._study, trial):
            return False
        # Successive halving would not repeat it: each of its rungs decides once.
        self._storage.set_trial_user_attr(self._trial_id(number), _PRUNED_AT, trial.last_step)
        return True

    def end(
        self, number: int, state: TrialState, value: float | None = None, why: str | None = None
    ) -> None:
        """End a running trial: a complete one with its metric, a failed one with the reason."""
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
            cast(TrialState, trial.state.name.lower()),
            trial.value,
            trial.user_attrs.get(_WHY),
        )

    def _history(self) -> "Sequence[FrozenTrial]":
        trials: Sequence[FrozenTrial] = self._study.get_trials(deepcopy=False)
        return trials

    def _trial_id(self, number: int) -> Any:
        """Return the storage's number of a trial, by Optuna's public interface."""
        study_id = self._storage.get_study_id_from_name(_NAME)
        return self._storage.get_trial_id_from_study_id_trial_number(study_id, number)


def _drop_torn_line(journal: Path) -> None:
    """Remove a last line that a killed process has not finished, which Optuna cannot read."""
    with open_regular(journal, "a+b") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


def import_optuna() -> ModuleType:
    """Import Optuna and silence its messages."""
    optuna = import_extra("optuna", "sweep", "search")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _build_sampler(draws: Draws, seed: int, samplers: Any) -> Any:
    if draws == "random":
        return samplers.RandomSampler(seed=seed)
    # Settings depend on each other, so they are drawn together (multivariate). Running trials count
    # as bad ones (constant liar), which keeps those that run side by side apart.
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


class Search:
    """The points of a study's trials, without those whose settings do not go together."""

    def __init__(self, sweep: Sweep, space: Space, metric: str, directory: Path) -> None:
        """Open the search that is recorded in ``directory``, or begin one, judged by ``metric``."""
        settings = sweep.settings
        self.study = Study(
            directory,
            space,
            settings.sampler,
            seed=sweep.config_of(sweep.samples[0]).seed,
            prune=settings.prune,
            judged_by={"metric": metric, "seeds": settings.num_seeds},
            sign=METRICS[metric].rank(1.0),
        )
        self.points: list[Point] = []  # all so far
        self.unfit: list[Trial] = []  # those that are no points
        self.is_over = False  # whether no point will be added
        self._sweep = sweep
        self._failures = 0
        for trial in self.study.trials:
            self._add(trial)

    def state(self, point: Point) -> TrialState:
        """Return what has become of a trial; more is only trained of a running one."""
        return self.study.trials[point.number].state

    def extend(self) -> bool:
        limit = self._sweep.settings.trials
        if self._failures >= _MAX_FAILURES and len(self.study.trials) < limit:
            raise RunError(
                f"the last {self._failures} trials have all failed; fix the cause, which the logs "
                "in the sweep's directory, in jobs/, name, and start it again"
            )
        while not self.is_over:
            trial = self.study.ask(limit)
            if trial is None:
                self.is_over = True
            elif self._add(trial):
                return True
        return False

    def _add(self, trial: Trial) -> bool:
        """Make a point of a trial, which fails if its settings do not go together."""
        dimensions = self.study.space
        nodes = {key: as_node(value, dimensions[key].place) for key, value in trial.values.items()}
        name = f"trial-{trial.number + 1:03}"
        point = Point(name, nodes, trial.number, f"{name} ({point_names([nodes])[0]})")
        try:
            self._sweep.config_of(point)
        except ConfigError as error:
            self.study.end(trial.number, "fail", why=str(error))
            self.unfit.append(self.study.trials[trial.number])
            return False
        self.points.append(point)
        return True

    def end(
        self, point: Point, state: TrialState, scores: Sequence[float] = (), why: str = ""
    ) -> None:
        """End a trial; a complete one has the mean of its runs' scores, or fails without any."""
        if state == "complete" and not scores:
            state, why = "fail", "it was not validated"
        self._failures = self._failures + 1 if state == "fail" else 0
        value = statistics.fmean(scores) if scores else None
        self.study.end(point.number, state, value, why or None)
