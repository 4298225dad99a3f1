"""A run's settings that somebody has chosen."""

from collections.abc import Iterator
from typing import NamedTuple

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from transformer_cli.config.origins import Origins
from transformer_cli.config.schema import Config


class Setting(NamedTuple):
    """A setting that is not as it would be if nobody had said anything."""

    key: str
    value: object
    instead_of: object
    """The value that it has in the base, or else by default."""
    required: bool
    """Whether there is neither, as it has to be given."""
    origin: str | None
    """Where it was written: a file and line, or --set; None: that is not known."""
    base: str | None
    """The file and line of ``instead_of``; None: it is the default."""


def chosen_settings(config: Config, origins: Origins) -> list[Setting]:
    """Return the settings that differ from a base or from the default, in the schema's order.

    Args:
        config: the run's.
        origins: where they come from, as far as that is known.
    """
    found = []
    for key, value, default in _all("", config, config.model_dump(mode="json")):
        origin = origins.get(key)
        replaced = origin.replaced[0] if origin and origin.replaced else None
        required = default is PydanticUndefined and replaced is None
        instead_of = replaced.value if replaced else None if required else default
        if required or value != instead_of:
            where = (str(origin) if origin else None, str(replaced) if replaced else None)
            found.append(Setting(key, value, instead_of, required, *where))
    return found


def _all(
    prefix: str, section: BaseModel, values: dict[str, object]
) -> Iterator[tuple[str, object, object]]:
    """Yield each setting's dotted key, its value as YAML has it, and its default."""
    for name, field in type(section).model_fields.items():
        if name not in values:  # a source's default
            continue
        value, plain = getattr(section, name), values[name]
        if isinstance(value, BaseModel) and isinstance(plain, dict):
            yield from _all(f"{prefix}{name}.", value, plain)
            continue
        if isinstance(value, dict) and isinstance(plain, dict):
            for key, each in value.items():  # splits by their names
                yield from _all(f"{prefix}{name}.{key}.", each, plain[key])
            continue
        default = field.get_default(call_default_factory=True)
        if isinstance(plain, list) and isinstance(default, tuple):
            default = list(default)
        yield prefix + name, plain, default
