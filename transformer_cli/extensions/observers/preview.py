"""The forecast as a part of the summary before a training."""

from collections.abc import Iterator

from transformer_cli.base.packages import lazy_imports
from transformer_cli.evaluation.scoring import Validator
from transformer_cli.training.session import Observer
from transformer_cli.training.summary import PlannedTraining, Row

with lazy_imports():
    from transformer_cli.extensions.observers import forecast

_WORTHWHILE = 100
"""With fewer batches than this, a forecast takes about as long as the training."""


class ForecastPreview(Observer):
    """The forecast, in the summary before a training."""

    def rows(self, planned: PlannedTraining) -> Iterator[Row]:
        """Yield the forecast of the steps that are left.

        There is none of a complete training, which may have ended before its last step; and unless
        the training is only previewed, none if training takes hardly longer.
        """
        trainer, config = planned.trainer, planned.config
        batches_left = (trainer.total_steps - trainer.step) * config.training.accumulate
        is_complete = planned.state is not None and planned.state.is_final(config.training)
        if is_complete or batches_left < (1 if planned.request.is_dry else _WORTHWHILE):
            return
        if not forecast.trial_fits(trainer, config):
            yield "forecast", "none: trial steps take a copy of the model, which does not fit"
            return
        expected = forecast.forecast_training(trainer, _validator(planned))
        if expected is not None:
            yield "forecast", forecast.describe_forecast(expected)


def _validator(planned: PlannedTraining) -> Validator:
    assert isinstance(planned.validator, Validator)
    return planned.validator
