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
    """Return the learning rate of ``step``.

    Args:
        schedule: kind of schedule and its numbers.
        d_model: the model's width, part of Noam's formula (Vaswani et al. 2017, equation 3).
        step: optimizer step, counted from 1.
        total_steps: the last step, where linear and cosine schedules reach zero.
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
            return schedule.peak * (1.0 - _decay_progress(schedule.warmup, step, total_steps))
        case CosineSchedule():
            done = _decay_progress(schedule.warmup, step, total_steps)
            return schedule.peak * 0.5 * (1.0 + math.cos(math.pi * done))


def last_step(training: TrainingConfig, steps_per_epoch: int) -> int:
    """Return the last step of a training."""
    steps = training.epochs * steps_per_epoch
    return min(steps, training.max_steps or steps)


def rate_jump(
    old: TrainingConfig, new: TrainingConfig, d_model: int, step: int, steps_per_epoch: int
) -> tuple[float, float] | None:
    """Return the rates of ``step`` and the next one if a new last step makes the rate jump.

    Args:
        old: the settings up to ``step``.
        new: the settings from then on, with the same schedule.
        d_model: the model's width.
        step: the last completed step.
        steps_per_epoch: optimizer steps.
    """
    old_end, new_end = (last_step(each, steps_per_epoch) for each in (old, new))
    if not 0 < step < new_end:
        return None
    planned, now = (
        learning_rate(new.schedule, d_model, step + 1, end) for end in (old_end, new_end)
    )
    return None if planned == now else (learning_rate(old.schedule, d_model, step, old_end), now)


def _decay_progress(warmup: int, step: int, total_steps: int) -> float:
    """Return the share of the steps after warm-up that ``step`` has completed."""
    return min(1.0, (step - warmup) / max(1, total_steps - warmup))
