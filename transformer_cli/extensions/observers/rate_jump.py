"""A warning where a new last step makes the learning rate of a resumed training jump."""

from collections.abc import Iterator

from transformer_cli.config.schema import TrainingConfig
from transformer_cli.training.optimizer import last_step
from transformer_cli.training.session import Observer
from transformer_cli.training.summary import PlannedTraining, Row


class RateJumpWarning(Observer):
    """Warns in the summary before a training."""

    def rows(self, planned: PlannedTraining) -> Iterator[Row]:
        trainer, config = planned.trainer, planned.config
        if planned.previous is None:
            return
        old, new, steps = planned.previous.training, config.training, trainer.steps_per_epoch
        if jump := rate_jump(old, new, config.model.d_model, trainer.step, steps):
            before, after = jump
            yield (
                "warning",
                f"the learning rate jumps from {before:.3g} at step {trainer.step:,} to "
                f"{after:.3g} at step {trainer.step + 1:,}, as the {new.schedule.kind} schedule "
                f"now ends at step {last_step(new, steps):,}; 'init: RUN' in a configuration "
                "begins another run from these weights, with a schedule of its own",
            )


def rate_jump(
    old: TrainingConfig, new: TrainingConfig, d_model: int, step: int, steps_per_epoch: int
) -> tuple[float, float] | None:
    """Return the rates of ``step`` and the next one if a new last step makes the rate jump.

    ``step`` was the last one by the ``old`` settings; the ``new`` ones have the same schedule.
    """
    old_end, new_end = last_step(old, steps_per_epoch), last_step(new, steps_per_epoch)
    if not 0 < step < new_end:
        return None
    planned = new.schedule.rate(step + 1, old_end, d_model)
    now = new.schedule.rate(step + 1, new_end, d_model)
    return None if planned == now else (old.schedule.rate(step, old_end, d_model), now)
