"""What all sections of the settings share: their base class, and the types of their values."""

import os.path
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, WrapValidator
from pydantic_core import PydanticCustomError

from transformer_cli.base.artifact import sum_json
from transformer_cli.base.locations import is_url, text_path
from transformer_cli.config import languages

# Bounds far beyond what can be computed with, below those of the numbers that libraries take.
Count = Annotated[int, Field(gt=0, lt=2**31)]
CountOrZero = Annotated[int, Field(ge=0, lt=2**31)]
Width = Annotated[int, Field(gt=0, le=2**20)]
Layers = Annotated[int, Field(gt=0, le=1000)]
Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
DropoutRate = Annotated[float, Field(ge=0.0, le=0.9)]
Language = Annotated[
    str,
    Field(max_length=languages.LONGEST, pattern=languages.PATTERN),
    AfterValidator(languages.normalize_language),
]


def setting(default: Any, description: str) -> Any:
    """Return the field of a setting that need not be given."""
    return Field(default, description=description)


class Section(BaseModel):
    """A part of the configuration: unknown keys are refused, values do not change once read."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, strict=True, allow_inf_nan=False
    )

    def fingerprint(self, **which: Any) -> str:
        """Return the SHA-256 of the settings, by ``model_dump``'s ``include`` and ``exclude``.

        Settings at their defaults are left out, so a setting that a later version adds changes no
        sum that an earlier one has recorded. Use this for every sum of settings.
        """
        return sum_json(self.model_dump(mode="json", exclude_defaults=True, **which))


def _read_path(value: object, as_path: Callable[[object], Path]) -> Path:
    if isinstance(value, str):
        try:
            if is_url(path := text_path(value)):
                return path
        except ValueError as error:
            # Not a ValueError, beside which the value would be shown, with its credentials.
            raise PydanticCustomError("url", "{problem}", {"problem": str(error)}) from None
    path = as_path(value)
    if is_url(path):
        return path
    # Not Path.expanduser, which raises where there is no such user.
    return Path(os.path.expanduser(path)).absolute()  # noqa: PTH111


# A run remembers where its files lie, whatever directory it is used from. Text may lie in a store,
# as an object; what needs a file says so.
FilePath = Annotated[
    Path,
    Field(strict=False),
    WrapValidator(_read_path),
    # A run's records are the same on Windows.
    PlainSerializer(lambda path: path.as_posix(), return_type=str, when_used="json"),
]
