"""A search's trials: which point is next, and which is not worth its time.

Any number of processes may work on a study. Each call takes the journal's lock, reads what the
others have written, and writes a line or two.
"""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Literal

from filelock import FileLock, Timeout

from transformer_cli.errors import ConfigError, RunError
from transformer_cli.files import open_regular
from transformer_cli.jobs.space import Choices, Range, SearchSpace
from transformer_cli.packages import import_extra

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

Sampler = Literal["tpe", "random"]
Prune = Literal["median", "halving", "none"]
State = Literal["running", "complete", "pruned", "failed"]

JOURNAL = "study.journal"
_LOCK = "study.lock"
_PATIENCE = 120.0
"""Seconds to wait for the lock, which is held for a fraction of one."""
_NAME = "sweep"
_STATES: dict[str, State] = {
    "RUNNING": "running",
    "COMPLETE": "complete",
    "PRUNED": "pruned",
    "FAIL": "failed",
}
_RANDOM_TRIALS = 10
"""Trials that TPE draws at random, before it has seen enough."""
_DRAWS = 10
"""How often to draw while what comes was tried before."""
# The first validations are no evidence: the learning rate still rises, and BLEU is near 0.
_FIRST_STEP = 3
"""The first validation at which a trial may be pruned."""
_MEDIAN_TRIALS = 5
"""Complete trials that the median rule needs."""
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
    value: float | None = None
    """The metric; where it was pruned, that of its last validation."""
    why: str | None = None
    """Why it failed."""


class JournalLock:
    """A lock on the journal, which its holder may take again; Optuna takes it for each write.

    Optuna's own locks are files: one that a killed process leaves blocks the others for 30 seconds,
    and a process that was stopped for longer loses its lock and writes all the same. Here the
    operating system holds the lock, and releases it however the holder ends.
    """

    def __init__(self, directory: Path) -> None:
        self._journal = directory / JOURNAL
        self._lock = FileLock(directory / _LOCK)

    def acquire(self) -> bool:
        """Wait for the lock, and make the journal fit to be written to."""
        name = self._lock.lock_file
        try:
            open_regular(Path(name), "ab").close()  # which FileLock cuts to nothing
            self._lock.acquire(timeout=_PATIENCE)
        except Timeout as error:
            raise RunError(
                f"{name}: held for {_PATIENCE:.0f} s by another process; if one that works on this "
                "sweep is stopped, continue or kill it"
            ) from error
        except OSError as error:
            raise RunError(
                f"{name}: cannot be locked: {error.strerror}; a sweep needs a directory that can "
                "be written and whose file system has locks"
            ) from error
        self._drop_torn_line()
        return True

    def _drop_torn_line(self) -> None:
        """Remove a last line that was cut off: Optuna would append to it, and read no further."""
        if not self._journal.exists():
            return
        with open_regular(self._journal, "r+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 1, 0))
            if file.read() not in (b"", b"\n"):
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)

    def release(self) -> None:
        """Release the lock, or one of several times that it was taken."""
        self._lock.release()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock while the block runs."""
        self.acquire()
        try:
            yield
        finally:
            self.release()


class Study:
    """A search in a sweep's directory. Its metric is maximized.

    What ``ask`` draws depends on the seed, the trial's number and what the journal says of the
    trials before it; not on the process that asks. Reporting and telling twice are no errors, and
    the first counts: two processes may have seen the same trial end.
    """

    def __init__(
        self,
        directory: Path,
        space: SearchSpace,
        sampler: Sampler,
        seed: int,
        prune: Prune,
        judged_by: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
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
        self._optuna = optuna = import_optuna()
        self._space, self._sampler, self._seed = space, sampler, seed
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = JournalLock(directory)
        with self._lock.held():
            journal = optuna.storages.journal
            backend = journal.JournalFileBackend(str(directory / JOURNAL), self._lock)
            self._storage = optuna.storages.JournalStorage(backend)
            self._study = optuna.create_study(
                study_name=_NAME,
                storage=self._storage,
                direction="maximize",
                pruner=_pruner(prune, optuna),
                load_if_exists=True,
            )
            settings = {**_describe(space, sampler, seed), **judged_by}
            earlier = self._study.user_attrs.get(_SETTINGS)
            if earlier is None:
                self._study.set_user_attr(_SETTINGS, settings)
            else:
                _check_same(directory, earlier, settings)

    def ask(self, limit: int) -> Trial | None:
        """Begin the next trial.

        Returns:
            None if ``limit`` trials were begun, by whomever and however they ended, or if the
            space has no other point.
        """
        with self._lock.held():
            history = self._study.get_trials(deepcopy=False)
            if len(history) >= limit:
                return None
            point = self._draw(history)
            if point is None:
                return None
            # One line of the journal, so there is no trial without its point.
            trial = self._optuna.trial
            self._study.add_trial(
                trial.create_trial(
                    state=trial.TrialState.RUNNING,
                    params=point,
                    distributions=_distributions(self._space, self._optuna.distributions),
                )
            )
        return Trial(len(history), self._space.decode(point), "running")

    def _draw(self, history: Sequence["FrozenTrial"]) -> dict[str, object] | None:
        """Return the next point as the study records it; None if all were tried.

        A point that was tried before is drawn again, since it would be the same run. Where that
        does not help, in a space with few points, the first of them that is left comes.
        """
        tried = [trial.params for trial in history]
        kinds = _distributions(self._space, self._optuna.distributions)
        point: dict[str, object] = {}
        for attempt in range(_DRAWS):
            numbers = repr((self._seed, len(history), attempt))
            seed = int.from_bytes(sha256(numbers.encode()).digest()[:4])
            # A study in memory, so that a trial can be recorded as a whole, with rounded numbers.
            study = self._optuna.create_study(
                direction="maximize", sampler=_sampler(self._sampler, seed, self._optuna)
            )
            study.add_trials(history)
            point = self._space.record(study.ask(kinds).params)
            if point not in tried:
                return point
        if not self._space.is_finite:
            return point
        return next((each for each in self._space.iter_points() if each not in tried), None)

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

        Once it is so it remains so; and so it is of one that was told to be pruned or failed.
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

    def _tell(self, number: int, state: str, value: float | None = None) -> None:
        states = self._optuna.trial.TrialState
        with self._lock.held():
            self._study.tell(number, value, state=states[state], skip_if_finished=True)

    def trials(self) -> list[Trial]:
        """Return all trials, in the order of their numbers."""
        with self._lock.held():
            trials = self._study.get_trials(deepcopy=False)
        return [
            Trial(
                trial.number,
                self._space.decode(trial.params),
                _STATES[trial.state.name],
                trial.value,
                trial.user_attrs.get(_WHY),
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


def import_optuna() -> ModuleType:
    """Import Optuna, without its messages."""
    optuna = import_extra("optuna", "sweep", "search")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _sampler(sampler: Sampler, seed: int, optuna: ModuleType) -> Any:
    if sampler == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    # Settings of a training depend on each other, so they are drawn together (multivariate). Trials
    # that still run count as bad ones (constant liar): runs side by side keep apart.
    return optuna.samplers.TPESampler(
        n_startup_trials=_RANDOM_TRIALS, multivariate=True, constant_liar=True, seed=seed
    )


def _pruner(prune: Prune, optuna: ModuleType) -> Any:
    pruners = optuna.pruners
    if prune == "median":
        return pruners.MedianPruner(n_startup_trials=_MEDIAN_TRIALS, n_warmup_steps=_FIRST_STEP)
    if prune == "halving":
        return pruners.SuccessiveHalvingPruner(
            min_resource=_FIRST_STEP, reduction_factor=_REDUCTION_FACTOR
        )
    return pruners.NopPruner()


def _distributions(space: SearchSpace, kinds: Any) -> dict[str, Any]:
    """Return Optuna's distribution of each setting, in the order of their keys."""

    def of(dimension: Choices | Range) -> Any:
        match dimension:
            case Choices():
                return kinds.CategoricalDistribution(dimension.labels)
            case Range(is_integer=True):
                low, high = int(dimension.low), int(dimension.high)
                return kinds.IntDistribution(low, high, log=dimension.is_log)
        return kinds.FloatDistribution(dimension.low, dimension.high, log=dimension.is_log)

    return {key: of(dimension) for key, dimension in sorted(space.dimensions.items())}


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
