"""A warning for the summary if the learning rate jumps when training continues."""

from collections.abc import Iterator

from transformer_cli.config.schema import Config, TrainingConfig
from transformer_cli.training.optimizer import last_step
from transformer_cli.training.summary import Row
from transformer_cli.training.trainer import Trainer


def jump_rows(trainer: Trainer, old: Config, new: Config) -> Iterator[Row]:
    """Yield a warning for the summary if the learning rate jumps after the trainer's step."""
    step, steps_per_epoch = trainer.step, trainer.steps_per_epoch
    jump = find_jump(old.training, new.training, new.model.d_model, step, steps_per_epoch)
    if jump is not None:
        before, after = jump
        end = last_step(new.training, steps_per_epoch)
        yield (
            "warning",
            f"the learning rate jumps from {before:.3g} at step {step:,} to {after:.3g} at step "
            f"{step + 1:,} because the {new.training.schedule.kind} schedule now ends at step "
            f"{end:,}; to start another run from these weights with its own schedule, set 'init: "
            "RUN' in its config",
        )


def find_jump(
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
