"""The setting ``init_share``, which averages the trained weights with the initial ones."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from transformer_cli.config.sections import Section, setting


class InitShareSettings(Section):
    """The setting ``training.init_share``: the share of initial weights in an averaged model."""

    average: ClassVar[str | None] = "init_share"

    init_share: Annotated[float, Field(gt=0.0, lt=1.0)] | None = setting(
        None,
        "share of init's weights in an average with the trained weights; the average is validated "
        "and saved, to limit forgetting (Wortsman et al. 2022); needs init, excludes ema_decay; "
        "null: no average",
    )

    def check_with(self, config: Any) -> None:
        """Raise ValueError if ``init`` is missing, or if ``ema_decay``, another average, is set."""
        super().check_with(config)
        if config.init is None:
            raise ValueError("training.init_share: needs init, the run that training starts from")
        if config.training.ema_decay is not None:
            raise ValueError(
                "training.init_share: ema_decay is another average; set one of them to null"
            )
