"""A run's settings that somebody has chosen."""

from collections.abc import Iterator
from typing import NamedTuple

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from transformer_cli.config.schema import Config


class Setting(NamedTuple):
    """A setting that is not as it would be if nobody had said anything."""

    key: str
    value: object
    default: object
    """None, too, where there is none and it has to be given."""
    given: bool
    """Whether it has to be given."""


def chosen_settings(config: Config) -> list[Setting]:
    """The settings that differ from the schema's defaults, in the schema's order."""
    return list(_below("", config, config.model_dump(mode="json")))


def _below(prefix: str, section: BaseModel, values: dict[str, object]) -> Iterator[Setting]:
    for name, field in type(section).model_fields.items():
        value, default = getattr(section, name), field.get_default(call_default_factory=True)
        plain = values[name]
        if isinstance(value, BaseModel) and isinstance(plain, dict):
            yield from _below(f"{prefix}{name}.", value, plain)
        elif default is PydanticUndefined:
            yield Setting(prefix + name, plain, None, given=True)
        elif value != default:
            shown = list(default) if isinstance(default, tuple) else default
            yield Setting(prefix + name, plain, shown, given=False)
