"""The settings of a run that somebody chose, and what they would be otherwise."""

from typing import NamedTuple

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from transformer_cli.config import setting_tree as tree
from transformer_cli.config.origins import Origins
from transformer_cli.config.schema import Config


class Setting(NamedTuple):
    """A setting that is not as it would be if nobody had said anything."""

    key: str
    value: object
    instead_of: object  # its value in the base, or else by default
    required: bool  # there is neither
    origin: str | None  # where it was written; None: that is not known
    base: str | None  # where the other value was; None also for a default


def chosen_settings(config: Config, origins: Origins) -> list[Setting]:
    """Return the settings that differ from a base or from the default, in the schema's order."""
    chosen = []
    for keys, value in tree.iter_leaves(config.model_dump(mode="json")):
        key, default = tree.join_keys(keys), _default(config, keys)
        origin, *earlier = origins.get(key, ()) or (None,)
        # A file may say again what its base says.
        base = next((one for one in earlier if one and one.value != value), None)
        required = default is PydanticUndefined and base is None
        instead_of = base.value if base else None if required else default
        if required or value != instead_of:
            where = (str(origin) if origin else None, str(base) if base else None)
            chosen.append(Setting(key, value, instead_of, required, *where))
    return chosen


def _default(section: object, keys: tree.Keys) -> object:
    """Return a setting's default as YAML has it; PydanticUndefined if it has none."""
    default: object = None
    for key in keys:
        if isinstance(section, BaseModel):
            if isinstance(default, type(section)):
                default = getattr(default, str(key))
            else:
                field = type(section).model_fields[str(key)]
                default = field.get_default(call_default_factory=True)
            section = getattr(section, str(key))
        elif isinstance(section, dict):
            section = section[key]
    return list(default) if isinstance(default, tuple) else default
