"""Checks and messages before training: memory, learning rate jumps, and a forecast."""

from collections.abc import Iterator

import torch

from transformer_cli.base.packages import lazy_imports
from transformer_cli.base.ranks import Ranks
from transformer_cli.config.schema import Config
from transformer_cli.evaluation.scoring import Validator
from transformer_cli.model.transformer import build_shapes, count_parameters
from transformer_cli.text.protocol import PAD_ID, SPECIALS
from transformer_cli.training.session import Observer
from transformer_cli.training.summary import PlannedTraining, Row

with lazy_imports():
    from transformer_cli.extensions.observers import forecast, memory, rate_jump

_WORTHWHILE = 100
"""With fewer batches left than this, a forecast takes about as long as training itself."""
_SMALL = 1 << 20
"""Training fewer weights than this takes less memory than the program itself does."""


class Preview(Observer):
    """An observer that refuses training that does not fit into memory, and adds summary rows."""

    def check(
        self,
        config: Config,
        vocab_sizes: tuple[int, int] | None,
        device: torch.device,
        ranks: Ranks,
    ) -> None:
        """Check the memory, before text is read (``vocab_sizes`` is None) and again afterwards."""
        smallest = len(SPECIALS), len(SPECIALS)
        model = build_shapes(config.model, *(vocab_sizes or smallest), PAD_ID)
        if count_parameters(model) > _SMALL:
            memory.check_memory(model, config, device, ranks)

    def rows(self, planned: PlannedTraining) -> Iterator[Row]:
        """Yield a warning if the learning rate jumps, and a forecast for the remaining steps.

        There is no forecast for finished training, which may have ended before its last step.
        There is also none if training would take hardly longer than the forecast, unless this is
        a dry run.
        """
        trainer, config, previous = planned.trainer, planned.request.config, planned.previous
        if previous is not None and previous.training != config.training:
            step, steps_per_epoch = trainer.step, trainer.steps_per_epoch
            if jump := rate_jump.describe_jump(previous, config, step, steps_per_epoch):
                yield "warning", jump
        batches_left = (trainer.total_steps - trainer.step) * config.training.accumulate
        is_complete = planned.state is not None and planned.state.is_final(config.training)
        if is_complete or batches_left < (1 if planned.request.is_dry else _WORTHWHILE):
            return
        if not forecast.trial_fits(trainer, config):
            yield "forecast", "none: trial steps need a copy of the model, which does not fit"
            return
        assert isinstance(planned.validator, Validator)
        if expected := forecast.forecast_training(trainer, planned.validator):
            yield "forecast", forecast.describe_forecast(expected)
