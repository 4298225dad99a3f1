"""The learning rate of an optimizer step."""

import math

from transformer_cli.config.schema import (
    ConstantSchedule,
    CosineSchedule,
    InverseSqrtSchedule,
    LinearSchedule,
    NoamSchedule,
    ScheduleConfig,
    TrainingConfig,
)


def learning_rate(schedule: ScheduleConfig, d_model: int, step: int, total_steps: int) -> float:
    """The rate of ``step``, counted from 1.

    Args:
        schedule: kind of schedule and its numbers.
        d_model: the model's width, part of Noam's formula (Vaswani et al. 2017, equation 3).
        step: which optimizer step, from 1.
        total_steps: the last step, where linear and cosine schedules have come down to zero.
    """
    if isinstance(schedule, NoamSchedule):
        scale = schedule.factor / math.sqrt(d_model)
        return scale * min(1.0 / math.sqrt(step), step / math.sqrt(schedule.warmup) ** 3)
    if step < schedule.warmup:
        return schedule.peak * step / schedule.warmup
    match schedule:
        case ConstantSchedule():
            return schedule.peak
        case InverseSqrtSchedule():
            return schedule.peak * math.sqrt(schedule.warmup / step)
        case LinearSchedule():
            return schedule.peak * (1.0 - _share_done(schedule.warmup, step, total_steps))
        case CosineSchedule():
            done = _share_done(schedule.warmup, step, total_steps)
            return schedule.peak * 0.5 * (1.0 + math.cos(math.pi * done))


def last_step(training: TrainingConfig, steps_per_epoch: int) -> int:
    """The step that a training ends with."""
    steps = training.epochs * steps_per_epoch
    return min(steps, training.max_steps or steps)


def rate_jump(
    old: TrainingConfig, new: TrainingConfig, d_model: int, step: int, steps_per_epoch: int
) -> tuple[float, float] | None:
    """Return the rates of ``step`` and of the next one, where a new last step parts them.

    Args:
        old: the settings by which the run has got to ``step``.
        new: those by which it goes on, with the same schedule.
        d_model: the model's width.
        step: the last one that is done.
        steps_per_epoch: optimizer steps.
    """
    old_end, new_end = (last_step(each, steps_per_epoch) for each in (old, new))
    if not 0 < step < new_end:
        return None
    planned, now = (
        learning_rate(new.schedule, d_model, step + 1, end) for end in (old_end, new_end)
    )
    return None if planned == now else (learning_rate(old.schedule, d_model, step, old_end), now)


def _share_done(warmup: int, step: int, total_steps: int) -> float:
    """How much of the way from the warm-up's end to the last step lies behind ``step``."""
    return min(1.0, (step - warmup) / max(1, total_steps - warmup))
