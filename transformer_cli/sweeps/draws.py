"""The points that a search tries, drawn by Optuna's samplers."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from transformer_cli.sweeps.space import Choices, Range, SearchSpace

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

Sampler = Literal["tpe", "random"]

_RANDOM_TRIALS = 10
"""Trials that TPE draws at random, before it has seen enough."""
_DRAWS = 10
"""How often to draw while what comes was tried before."""


def distributions(space: SearchSpace, optuna: ModuleType) -> dict[str, Any]:
    """Return Optuna's distribution of each setting, in the order of their keys."""
    return {
        key: _distribution(each, optuna.distributions)
        for key, each in sorted(space.dimensions.items())
    }


def _distribution(dimension: Choices | Range, kinds: ModuleType) -> Any:
    match dimension:
        case Choices():
            return kinds.CategoricalDistribution(dimension.labels)
        case Range(is_integer=True):
            low, high = int(dimension.low), int(dimension.high)
            return kinds.IntDistribution(low, high, log=dimension.is_log)
        case Range():
            return kinds.FloatDistribution(dimension.low, dimension.high, log=dimension.is_log)


def draw(
    space: SearchSpace,
    history: Sequence["FrozenTrial"],
    sampler: Sampler,
    seed: int,
    optuna: ModuleType,
) -> dict[str, object] | None:
    """Return the point of the next trial, as a study records it: a function of the arguments.

    A point that was tried before is drawn again, since it would be the same run. Where that does
    not help, in a space with few points, the first of them that is left comes.

    Returns:
        None if all points were tried.
    """
    tried = [trial.params for trial in history]
    point: dict[str, object] = {}
    for attempt in range(_DRAWS):
        draws = _sampler(sampler, _mix(seed, len(history), attempt), optuna)
        point = space.record(_draw_once(distributions(space, optuna), history, draws, optuna))
        if point not in tried:
            return point
    if not space.is_finite:
        return point
    return next((each for each in space.iter_points() if each not in tried), None)


def _draw_once(
    kinds: dict[str, Any], history: Sequence["FrozenTrial"], sampler: Any, optuna: ModuleType
) -> Mapping[str, object]:
    # A study in memory, so that a trial can be recorded as a whole, with rounded numbers.
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.add_trials(history)
    drawn: Mapping[str, object] = study.ask(kinds).params
    return drawn


def _sampler(sampler: Sampler, seed: int, optuna: ModuleType) -> Any:
    if sampler == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    # Settings of a training depend on each other, so they are drawn together (multivariate). Trials
    # that still run count as bad ones (constant liar): workers side by side keep apart.
    return optuna.samplers.TPESampler(
        n_startup_trials=_RANDOM_TRIALS, multivariate=True, constant_liar=True, seed=seed
    )


def _mix(*numbers: int) -> int:
    """Return a seed of 32 bits for several numbers."""
    return int.from_bytes(sha256(repr(numbers).encode()).digest()[:4])
