"""The learning rate of an optimizer step."""

import math

from transformer_cli.config.schema import (
    ConstantSchedule,
    CosineSchedule,
    InverseSqrtSchedule,
    LinearSchedule,
    NoamSchedule,
    ScheduleConfig,
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


def _share_done(warmup: int, step: int, total_steps: int) -> float:
    """How much of the way from the warm-up's end to the last step lies behind ``step``."""
    return min(1.0, (step - warmup) / max(1, total_steps - warmup))
