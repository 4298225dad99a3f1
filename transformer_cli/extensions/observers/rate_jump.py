"""Check whether a changed last step makes the learning rate of resumed training jump."""

from transformer_cli.config.schema import Config, TrainingConfig
from transformer_cli.training.optimizer import last_step


def describe_jump(old: Config, new: Config, step: int, steps_per_epoch: int) -> str | None:
    """Return a warning if the learning rate jumps after ``step``, else None."""
    jump = rate_jump(old.training, new.training, new.model.d_model, step, steps_per_epoch)
    if jump is None:
        return None
    before, after = jump
    end = last_step(new.training, steps_per_epoch)
    return (
        f"the learning rate jumps from {before:.3g} at step {step:,} to {after:.3g} at step "
        f"{step + 1:,} because the {new.training.schedule.kind} schedule now ends at step {end:,}; "
        "to start another run from these weights with its own schedule, set 'init: RUN' in its "
        "config"
    )


def rate_jump(
    old: TrainingConfig, new: TrainingConfig, d_model: int, step: int, steps_per_epoch: int
) -> tuple[float, float] | None:
    """Return the learning rates at ``step`` and after it, if a changed last step makes them jump.

    Training has reached ``step`` with the ``old`` settings; ``new`` has the same schedule.
    """
    old_end, new_end = last_step(old, steps_per_epoch), last_step(new, steps_per_epoch)
    if not 0 < step < new_end:
        return None
    planned = new.schedule.rate(step + 1, old_end, d_model)
    now = new.schedule.rate(step + 1, new_end, d_model)
    return None if planned == now else (old.schedule.rate(step, old_end, d_model), now)
