"""The keys of a sweep's YAML file."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from transformer_cli.config.sections import Count, Section
from transformer_cli.metrics import RankName

Values = Annotated[list[Any], Field(min_length=1)]
Seeds = Annotated[int, Field(gt=0, le=1000)]
_BUDGET = re.compile(r"[0-9]+(\.[0-9]+)?(min|h|d)")
_SECONDS = {"min": 60.0, "h": 3600.0, "d": 86400.0}
_OF_SEARCH = ("trials", "budget", "sampler", "prune", "metric")


class SweepSettings(Section):
    """A sweep: which settings of one configuration are tried, and how often."""

    base: str = Field(
        description="configuration whose settings are varied; its path starts from this file's "
        "directory"
    )
    seeds: Seeds | None = Field(
        None,
        description="each point is trained with the seeds 1 to this number; null: 3, in a search 1",
    )
    grid: dict[str, Values] = Field(
        default={}, description="values by setting; every combination is a point"
    )
    search: dict[str, Any] = Field(
        default={}, description="ranges and choices by setting, which Optuna draws points from"
    )
    trials: Count = Field(20, description="most points that a search draws")
    budget: str | None = Field(
        None,
        description="a search draws no point after this much time (90min, 6h, 2d): that of all "
        "trainings together, divided by --jobs",
    )
    sampler: Literal["tpe", "random"] = Field("tpe", description="how a search draws points")
    prune: Literal["none", "median", "halving"] = Field(
        "none", description="which trainings of a search are stopped early, by their validations"
    )
    metric: RankName | None = Field(
        None,
        description="what a search makes large (the loss: small), at the best validation; null: "
        "what the base's training.select says",
    )
    evaluate: list[str] = Field(
        default=[], description="splits that all runs are scored on at the end, all alike"
    )

    @property
    def num_seeds(self) -> int:
        """The number of seeds."""
        return self.seeds or (1 if self.search else 3)

    @property
    def budget_seconds(self) -> float | None:
        """The budget in seconds."""
        if self.budget is None:
            return None
        unit = next(unit for unit in _SECONDS if self.budget.endswith(unit))
        return float(self.budget.removesuffix(unit)) * _SECONDS[unit]

    @model_validator(mode="after")
    def _keys_agree(self) -> Self:
        if not self.base:
            raise ValueError("base: expected the path of a YAML file, found an empty text")
        if self.budget is not None and not _BUDGET.fullmatch(self.budget):
            raise ValueError(
                f"budget: expected a time such as 90min, 6h or 2d, found {self.budget!r}"
            )
        if self.grid and self.search:
            raise ValueError("search: a sweep has a grid or a search; leave one of them out")
        unused = [key for key in _OF_SEARCH if key in self.model_fields_set]
        if unused and not self.search:
            raise ValueError(f"{unused[0]}: is of a search, and there is none; leave it out")
        return self
