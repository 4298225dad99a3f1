"""The setting ``training.max_minutes``."""

from typing import Annotated

from pydantic import Field

from transformer_cli.config.sections import Section, setting


class TimeSettings(Section):
    """The setting that limits the time of a training."""

    max_minutes: Annotated[float, Field(gt=0.0, le=1e6)] | None = setting(
        None,
        "time for training and validations, in minutes; the number of steps that fit is measured "
        "before training, and recorded as max_steps, so that the schedule ends with them",
        may_change=True,
    )
