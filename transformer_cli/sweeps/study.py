"""A search's trials: which point is next, and which is not worth its time.

Any number of processes, on one machine or on several with a shared directory, may work on a study.
Each call takes the journal's lock, reads what the others have written, and writes a line or two.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Literal

from transformer_cli.errors import ConfigError
from transformer_cli.packages import import_extra
from transformer_cli.sweeps.draws import Sampler, distributions, draw
from transformer_cli.sweeps.journal import JOURNAL, JournalLock, open_storage
from transformer_cli.sweeps.space import SearchSpace

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

Prune = Literal["median", "halving", "none"]
State = Literal["running", "complete", "pruned", "failed"]

_NAME = "sweep"
_STATES: dict[str, State] = {
    "RUNNING": "running",
    "COMPLETE": "complete",
    "PRUNED": "pruned",
    "FAIL": "failed",
}
# The first validations are no evidence: the learning rate still rises, and BLEU is near 0.
_FIRST_STEP = 3
"""The first validation at which a trial may be pruned."""
_MEDIAN_TRIALS = 5
"""Complete trials that the median rule needs."""
_REDUCTION_FACTOR = 3
"""Successive halving compares at validations 3, 9, 27, and goes on with the best third."""

# Attributes of a study and its trials, beside those of Optuna.
_SETTINGS = "settings"
_PRUNED_AT = "pruned_at"
_WHY = "why"


@dataclass(frozen=True)
class TrialPoint:
    """A trial to run: its number, from 0, and its settings by dotted key."""

    number: int
    values: dict[str, object]


@dataclass(frozen=True)
class Trial:
    """A trial as the journal has it."""

    number: int
    values: dict[str, object]
    state: State
    value: float | None
    """The metric; where it was pruned, that of its last validation."""
    why: str | None
    """Why it failed."""


class Study:
    """A search in a sweep's directory. Its metric is maximised.

    What ``ask`` draws depends on the seed, the trial's number and what the journal says of the
    trials before it; not on the process that asks. Reporting and telling twice are no errors, and
    the first counts: two workers may have the same trial, where one was taken for dead.
    """

    def __init__(
        self,
        study: Any,
        storage: Any,
        space: SearchSpace,
        sampler: Sampler,
        seed: int,
        lock: JournalLock,
    ) -> None:
        """Use ``Study.open``."""
        self._study = study
        self._storage = storage
        self._space = space
        self._sampler = sampler
        self._seed = seed
        self._lock = lock

    @classmethod
    def open(
        cls,
        directory: Path,
        space: SearchSpace,
        sampler: Sampler,
        seed: int,
        prune: Prune,
        judged_by: Mapping[str, object] = MappingProxyType({}),
    ) -> "Study":
        """Open the study in ``directory``, or begin one.

        Args:
            directory: the sweep's.
            space: what is searched.
            sampler: how points are drawn.
            seed: of these draws.
            prune: which trials are pruned; it may change.
            judged_by: what a trial's value depends on besides its settings.

        Raises:
            MissingExtraError: Optuna is not installed.
            ConfigError: the study there is of another space, sampler or seed.
            RunError: the directory cannot be locked.
        """
        optuna = _import_optuna()
        directory.mkdir(parents=True, exist_ok=True)
        lock = JournalLock(directory)
        with lock.held():
            storage = open_storage(directory, lock, optuna)
            study = optuna.create_study(
                study_name=_NAME,
                storage=storage,
                direction="maximize",
                pruner=_pruner(prune, optuna),
                load_if_exists=True,
            )
            settings = {**_describe(space, sampler, seed), **judged_by}
            earlier = study.user_attrs.get(_SETTINGS)
            if earlier is None:
                study.set_user_attr(_SETTINGS, settings)
            else:
                _check_same(directory, earlier, settings)
        return cls(study, storage, space, sampler, seed, lock)

    def ask(self, limit: int) -> TrialPoint | None:
        """Begin the next trial.

        Returns:
            None if ``limit`` trials were begun, by whomever and however they ended, or if the
            space has no other point.
        """
        optuna = _import_optuna()
        with self._lock.held():
            history = self._study.get_trials(deepcopy=False)
            if len(history) >= limit:
                return None
            point = draw(self._space, history, self._sampler, self._seed, optuna)
            if point is None:
                return None
            # One line of the journal, so there is no trial without its point.
            self._study.add_trial(
                optuna.trial.create_trial(
                    state=optuna.trial.TrialState.RUNNING,
                    params=point,
                    distributions=distributions(self._space, optuna),
                )
            )
        return TrialPoint(len(history), self._space.decode(point))

    def report(self, number: int, step: int, value: float) -> None:
        """Record the metric of a trial's validation ``step``, counted from 1.

        A metric that is not finite fails the trial.
        """
        with self._lock.held():
            trial = self._trial(number)
            if trial.state.is_finished() or step in trial.intermediate_values:
                return
            if math.isfinite(value):
                trial_id = self._trial_id(number)
                self._storage.set_trial_intermediate_value(trial_id, step, value)
            else:
                self.tell_failed(number, f"the metric of validation {step} is {value}")

    def should_prune(self, number: int) -> bool:
        """Return whether a trial's training is to be stopped.

        Once it is so it remains so; and so it is of one that somebody has told to be pruned or
        failed.
        """
        with self._lock.held():
            trial = self._trial(number)
            if trial.state.is_finished():
                return trial.state.name != "COMPLETE"
            if _PRUNED_AT in trial.user_attrs:
                return True
            if not self._study.pruner.prune(self._study, trial):
                return False
            # Successive halving would not say so again: each of its rungs decides once.
            self._storage.set_trial_user_attr(self._trial_id(number), _PRUNED_AT, trial.last_step)
        return True

    def tell(self, number: int, value: float) -> None:
        """End a trial with its metric, which fails it if it is not finite."""
        if math.isfinite(value):
            self._tell(number, "COMPLETE", value)
        else:
            self.tell_failed(number, f"the metric is {value}")

    def tell_pruned(self, number: int) -> None:
        """End a trial that was stopped because of ``should_prune``."""
        self._tell(number, "PRUNED")

    def tell_failed(self, number: int, why: str) -> None:
        """End a trial that has no metric, and say why."""
        with self._lock.held():
            if not self._trial(number).state.is_finished():
                self._storage.set_trial_user_attr(self._trial_id(number), _WHY, why)
                self._tell(number, "FAIL")

    def trials(self) -> list[Trial]:
        """Return all trials, in the order of their numbers."""
        with self._lock.held():
            trials = self._study.get_trials(deepcopy=False)
        return [
            Trial(
                number=trial.number,
                values=self._space.decode(trial.params),
                state=_STATES[trial.state.name],
                value=trial.value,
                why=trial.user_attrs.get(_WHY),
            )
            for trial in trials
        ]

    def _trial(self, number: int) -> "FrozenTrial":
        trial: FrozenTrial = self._study.get_trials(deepcopy=False)[number]
        return trial

    def _trial_id(self, number: int) -> Any:
        """Return the storage's own number of a trial."""
        study_id = self._storage.get_study_id_from_name(_NAME)
        return self._storage.get_trial_id_from_study_id_trial_number(study_id, number)

    def _tell(self, number: int, state: str, value: float | None = None) -> None:
        states = _import_optuna().trial.TrialState
        with self._lock.held():
            self._study.tell(number, value, state=states[state], skip_if_finished=True)


def _import_optuna() -> ModuleType:
    optuna = import_extra("optuna", "sweep", "search")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _pruner(prune: Prune, optuna: ModuleType) -> Any:
    match prune:
        case "median":
            return optuna.pruners.MedianPruner(
                n_startup_trials=_MEDIAN_TRIALS, n_warmup_steps=_FIRST_STEP
            )
        case "halving":
            return optuna.pruners.SuccessiveHalvingPruner(
                min_resource=_FIRST_STEP, reduction_factor=_REDUCTION_FACTOR
            )
        case "none":
            return optuna.pruners.NopPruner()


def _describe(space: SearchSpace, sampler: Sampler, seed: int) -> dict[str, object]:
    """Return what decides a study's points, as JSON."""
    return {"sampler": sampler, "seed": seed} | {
        f"search.{key}": each.describe() for key, each in sorted(space.dimensions.items())
    }


def _check_same(directory: Path, earlier: dict[str, object], settings: dict[str, object]) -> None:
    for key in sorted(earlier.keys() | settings.keys()):
        if earlier.get(key) != settings.get(key):
            raise ConfigError(
                f"{directory / JOURNAL}: this search began with {key} "
                f"{earlier.get(key, 'left out')}, not {settings.get(key, 'left out')}; put that "
                "back, or give the new search a sweep of its own"
            )
