"""What all sections of the settings share: their base class, and the types of their values."""

import os.path
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer

# Bounds far beyond what can be computed with, below those of the numbers that libraries take.
Count = Annotated[int, Field(gt=0, lt=2**31)]
CountOrZero = Annotated[int, Field(ge=0, lt=2**31)]
Width = Annotated[int, Field(gt=0, le=2**20)]
Layers = Annotated[int, Field(gt=0, le=1000)]
Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
DropoutRate = Annotated[float, Field(ge=0.0, le=0.9)]
LANGUAGE_PATTERN = r"^[a-z]{2,3}(-[A-Za-z]+)?$"
Language = Annotated[str, Field(min_length=2, max_length=8, pattern=LANGUAGE_PATTERN)]


def setting(default: Any, description: str) -> Any:
    """Return the field of a setting that need not be given."""
    return Field(default, description=description)


class Section(BaseModel):
    """A part of the configuration: unknown keys are refused, values do not change once read."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, strict=True, allow_inf_nan=False
    )


# A run remembers where its files lie, whatever directory it is used from.
FilePath = Annotated[
    Path,
    Field(strict=False),
    # Not Path.expanduser, which raises where there is no such user.
    AfterValidator(lambda path: Path(os.path.expanduser(path)).absolute()),  # noqa: PTH111
    # A run's records are the same on Windows.
    PlainSerializer(lambda path: path.as_posix(), return_type=str, when_used="json"),
]
