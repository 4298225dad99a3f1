"""Checks and messages before training: memory, learning rate jumps, and a forecast."""

from collections.abc import Iterator

from torch import device

from transformer_cli.base.packages import lazy_imports
from transformer_cli.base.ranks import Ranks
from transformer_cli.config.schema import Config, TrainingConfig
from transformer_cli.model.transformer import build_shapes, count_parameters
from transformer_cli.text.protocol import PAD_ID, SPECIALS
from transformer_cli.training.session import Observer
from transformer_cli.training.summary import PlannedTraining, Row

with lazy_imports():
    from transformer_cli.extensions.observers import forecast, memory, rate_jump, time_limit

_WORTHWHILE = 100
"""With fewer batches left than this, a forecast takes about as long as training itself."""
_SMALL = 1 << 20
"""Training fewer weights than this takes less memory than the program itself does."""


class Preview(Observer):
    """An observer that refuses training that does not fit into memory, and adds summary rows."""

    def check(
        self, config: Config, vocab_sizes: tuple[int, int] | None, device: device, ranks: Ranks
    ) -> None:
        """Check the memory, before text is read (``vocab_sizes`` is None) and again afterwards."""
        smallest = len(SPECIALS), len(SPECIALS)
        model = build_shapes(config.model, *(vocab_sizes or smallest), PAD_ID)
        if count_parameters(model) > _SMALL:
            memory.check_memory(model, config, device, ranks)

    _limit: "time_limit.TimeLimit | None" = None

    def adapt(self, planned: PlannedTraining) -> TrainingConfig:
        """Limit ``max_steps`` to what fits into ``training.max_minutes``, if that is set."""
        training = planned.request.config.training
        if getattr(training, "max_minutes", None) is None:
            return training
        self._limit = time_limit.TimeLimit.find(planned)
        return self._limit.training

    def rows(self, planned: PlannedTraining) -> Iterator[Row]:
        """Yield a warning if the learning rate jumps, and a forecast for the remaining steps.

        There is none for finished training, nor for training that takes hardly longer than the
        forecast, unless this is a dry run.
        """
        trainer, config, previous = planned.trainer, planned.request.config, planned.previous
        if previous is not None and previous.training != config.training:
            yield from rate_jump.jump_rows(trainer, previous, config)
        if self._limit:
            yield "time limit", self._limit.describe(trainer)
        batches_left = (trainer.total_steps - trainer.step) * config.training.accumulate
        is_complete = planned.state is not None and planned.state.is_final(config.training)
        if not is_complete and batches_left >= (1 if planned.request.is_dry else _WORTHWHILE):
            known = self._limit.expect(trainer) if self._limit else None
            yield from forecast.forecast_rows(planned, known)
