"""The number of steps that fit into ``training.max_minutes`` on this machine."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer_cli.base.errors import ConfigError
from transformer_cli.base.files import read_json
from transformer_cli.base.messages import duration
from transformer_cli.base.text_files import write_text
from transformer_cli.config.schema import TrainingConfig
from transformer_cli.evaluation.scoring import Validator
from transformer_cli.extensions.observers import forecast
from transformer_cli.training.summary import PlannedTraining
from transformer_cli.training.trainer import Trainer

RECORD = "time_limit.json"
"""The file in a run that says how many steps fit, and the settings that this depends on."""
_DECISIVE = ("max_minutes", "epochs", "accumulate")
"""If one of these settings changes, a resumed run measures again how many steps fit."""


@dataclass(frozen=True)
class TimeLimit:
    """How many steps fit, and the settings with that number as ``max_steps``."""

    training: TrainingConfig
    fitting: int  # steps, including those of earlier sessions
    wanted: int  # steps without the limit
    measured: forecast.Forecast | None  # of the ``wanted`` steps; None if nothing was measured
    seconds: float  # that earlier sessions took

    @classmethod
    def find(cls, planned: PlannedTraining) -> "TimeLimit":
        """Measure how many steps fit, unless the run has recorded that; all ranks get the same.

        Raises:
            ConfigError: the speed cannot be measured.
        """
        ranks, training = planned.trainer.ranks, planned.request.config.training
        fitting = ranks.broadcast(_known_steps(planned) if ranks.is_main else None)
        measured = None
        if fitting is None:
            measured = _measure(planned)
            fitting = ranks.broadcast(_count_fitting_steps(planned, measured))
            assert fitting is not None
            if ranks.is_main and not planned.request.is_dry:
                record = {**_decisive(training), "steps": fitting}
                write_text(_path(planned), json.dumps(record, indent=1) + "\n")
        wanted = planned.trainer.total_steps
        limited = training.model_copy(update={"max_steps": min(wanted, fitting)})
        seconds = planned.state.seconds if planned.state else 0.0
        return cls(limited, fitting, wanted, measured, seconds)

    def expect(self, trainer: Trainer) -> forecast.Forecast | None:
        """Return a forecast of the steps that fit, if this session has measured them."""
        share = (trainer.total_steps - trainer.step) / self.wanted
        validations = forecast.count_validations(trainer)
        return self.measured and self.measured.scaled(share, validations)

    def describe(self, trainer: Trainer) -> str:
        """Describe in words what the limit means for a training."""
        training: Any = self.training
        limit = f"{training.max_minutes:g} min"
        if self.fitting >= self.wanted:
            return f"{limit}: all {self.wanted:,} steps should fit"
        if self.seconds >= 60 * training.max_minutes:
            return f"{limit}: used up; raise training.max_minutes to go on"
        epochs = self.fitting / trainer.steps_per_epoch
        text = f"{limit}: {self.fitting:,} of {self.wanted:,} steps fit ({epochs:.1f} epochs)"
        if self.measured and 2 * self.measured.validation > 60 * training.max_minutes:
            text += f"; a validation alone takes about {duration(self.measured.validation)}"
        if self.fitting < 2 * training.schedule.warmup:
            text += f"; the learning rate rises in the first {training.schedule.warmup:,}, so "
            text += "lower training.schedule.warmup"
        return text


def _path(planned: PlannedTraining) -> Path:
    return planned.request.run.path / RECORD


def _decisive(training: TrainingConfig) -> dict[str, Any]:
    return {key: getattr(training, key) for key in _DECISIVE}


def _known_steps(planned: PlannedTraining) -> int | None:
    """Return how many steps fit if a run with checkpoints has recorded it, or has no time left."""
    run, training = planned.request.run, planned.request.config.training
    if planned.request.overwrite or not run.has_checkpoints:
        return None
    record = read_json(_path(planned))
    steps = record.get("steps") if isinstance(record, dict) else None
    if isinstance(steps, int) and record == {**_decisive(training), "steps": steps}:
        return steps
    state, limit = planned.state, 60 * _decisive(training)["max_minutes"]
    is_over = state is not None and state.rank is not None and state.seconds >= limit
    return state.step if state is not None and is_over else None


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
    limit = 60 * _decisive(planned.request.config.training)["max_minutes"]
    state = planned.state
    steps, seconds = (state.step, state.seconds) if state else (0, 0.0)
    # There is one more validation, after the last step.
    left = max(0.0, limit - seconds - expected.validation)
    is_validated = state is not None and state.rank is not None
    fitting = steps + int(left * planned.trainer.total_steps / expected.seconds)
    return max(fitting, steps if is_validated else steps + 1)
