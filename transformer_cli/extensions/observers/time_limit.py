"""The number of steps that fit into ``training.max_minutes`` on this machine."""

from dataclasses import dataclass
from typing import Any

from transformer_cli.base.errors import ConfigError
from transformer_cli.config.schema import TrainingConfig
from transformer_cli.evaluation.scoring import Validator
from transformer_cli.extensions.observers import forecast
from transformer_cli.training.summary import PlannedTraining
from transformer_cli.training.trainer import Trainer

_DECISIVE = ("max_minutes", "epochs", "accumulate")
"""If one of these settings changes, a resumed run measures again how many steps fit."""


@dataclass(frozen=True)
class TimeLimit:
    """The settings of a training whose ``max_steps`` fit into a time, and how that was found."""

    training: TrainingConfig
    measured: forecast.Forecast | None  # of ``steps`` steps; None if an earlier session measured
    steps: int

    @classmethod
    def find(cls, planned: PlannedTraining) -> "TimeLimit":
        """Measure how many steps fit, unless the run has recorded that; all ranks get the same.

        Raises:
            ConfigError: the speed cannot be measured.
        """
        trainer, training = planned.trainer, planned.request.config.training
        measured, fitting = None, _recorded_steps(planned)
        if fitting is None:
            measured = _measure(planned)
            fitting = _count_fitting_steps(planned, measured)
        fitting = trainer.ranks.broadcast(fitting)
        assert fitting is not None
        total = trainer.total_steps
        limited = training.model_copy(update={"max_steps": min(total, fitting)})
        return cls(limited, measured, total)

    def expect(self, trainer: Trainer) -> forecast.Forecast | None:
        """Return a forecast of the steps that fit, if this session has measured them."""
        share = (trainer.total_steps - trainer.step) / self.steps
        return self.measured and self.measured.scaled(share)

    def describe(self, trainer: Trainer) -> str:
        """Describe the limit in words."""
        training: Any = self.training
        text = f"{training.max_minutes:g} min: {trainer.total_steps:,} steps"
        if trainer.total_steps == training.epochs * trainer.steps_per_epoch:
            return f"{text}, all of training.epochs {training.epochs}, should fit"
        epochs = trainer.total_steps / trainer.steps_per_epoch
        text += f", {epochs:.1f} of {training.epochs} epochs"
        if trainer.total_steps < 2 * training.schedule.warmup:
            text += f"; the learning rate rises in the first {training.schedule.warmup:,}, so "
            text += "lower training.schedule.warmup"
        return text


def _recorded_steps(planned: PlannedTraining) -> int | None:
    """Return the number of steps that a resumed run has recorded for the same settings, if any."""
    if planned.previous is None or planned.state is None:
        return None
    recorded, wanted = planned.previous.training, planned.request.config.training
    is_same = all(getattr(recorded, key, None) == getattr(wanted, key) for key in _DECISIVE)
    return recorded.max_steps if is_same else None


def _measure(planned: PlannedTraining) -> forecast.Forecast:
    """Return a forecast of all steps, as if none were done."""
    trainer, validator = planned.trainer, planned.validator
    assert isinstance(validator, Validator)
    fits = forecast.trial_fits(trainer, planned.request.config)
    expected = forecast.forecast_training(trainer, validator) if fits else None
    if expected is None:
        raise ConfigError(
            "training.max_minutes: the speed cannot be measured, because trial steps fail or do "
            "not fit into memory; set training.max_steps instead"
        )
    return expected


def _count_fitting_steps(planned: PlannedTraining, expected: forecast.Forecast) -> int:
    """Return how many steps fit into the time that earlier sessions have left, and theirs."""
    training: Any = planned.request.config.training
    steps, seconds = (planned.state.step, planned.state.seconds) if planned.state else (0, 0.0)
    # There is one more validation, after the last step.
    left = max(0.0, 60 * training.max_minutes - seconds - expected.validation)
    return max(1, steps + int(left * planned.trainer.total_steps / expected.seconds))
