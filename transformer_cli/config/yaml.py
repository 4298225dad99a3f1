"""Reading a configuration file strictly, and writing one with every key."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from transformer_cli.config.base_files import BASE, read_settings
from transformer_cli.config.merge import replace_node
from transformer_cli.config.origins import SET, Origins, origins_of
from transformer_cli.config.paths import check_paths
from transformer_cli.config.schema import Config
from transformer_cli.config.setting_tree import Keys, Node, Place, describe_value, setting_error
from transformer_cli.config.validation import validate
from transformer_cli.config.yaml_parser import parse, parse_scalar
from transformer_cli.errors import ConfigError
from transformer_cli.files import read_small


def load_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Return the settings of a YAML file; see ``load_settings``."""
    return load_settings(path, overrides)[0]


def load_settings(path: Path, overrides: Sequence[str] = ()) -> tuple[Config, Origins]:
    """Read a YAML file, change it as the command line says, and check every key and value.

    Args:
        path: a YAML file.
        overrides: ``KEY=VALUE`` each, in the order they are applied: KEY dotted as in
            ``training.schedule.warmup``, VALUE in YAML. They may add keys and replace sections.

    Returns:
        the settings, and where those that are no defaults were written.

    Raises:
        ConfigError: a file cannot be read, is not YAML or does not fit the schema, or an override
            does not. The message is one line with the file and line, or the override.
    """
    root = read_settings(path)
    for override in overrides:
        _apply(override, root)
    config = check_settings(root)
    return config, origins_of(config, root)


def check_settings(root: Node) -> Config:
    """Return a tree as a ``Config``, and check that the paths in it are there.

    Raises:
        ConfigError: it does not fit the schema, or names what is missing.
    """
    config = validate(root)
    check_paths(config, root)
    return config


def _apply(override: str, root: Node) -> None:
    place = Place(f"{SET} {' '.join(override.split())}")
    dotted_key, equals, text = override.partition("=")
    keys = tuple(dotted_key.split("."))
    if not equals or not all(keys):
        raise setting_error(place, (), "expected KEY=VALUE, as in training.epochs=20")
    if keys == (BASE,):
        raise setting_error(
            place, keys, "only a file has one; write one with this base and the changes"
        )
    set_node(root, keys, Node(parse(text, lambda line: place, keys).value, place))


def set_node(root: Node, keys: tuple[str, ...], new: Node) -> None:
    """Put a setting, or a section, in the place of another one or of none.

    Args:
        root: the tree that is changed.
        keys: the path of the setting.
        new: its value, with the place that errors name.

    Raises:
        ConfigError: the path leads through a setting that is no section.
    """
    *above, last = keys
    entries = _entries(root, (), new.place)
    for depth, key in enumerate(above):
        below = entries.setdefault(key, Node({}, new.place))
        entries = _entries(below, keys[: depth + 1], new.place)
    entries[last] = replace_node(entries[last], new) if last in entries else new


def _entries(section: Node, keys: Keys, place: Place) -> dict[str, Node]:
    if not isinstance(section.value, dict):
        raise setting_error(
            place, keys, f"is {describe_value(section.value)} and has no keys to set"
        )
    return section.value


def dump_config(config: Config) -> str:
    """Return the YAML text of a configuration with every key, in the schema's order.

    Returns:
        what ``load_config`` reads back as an equal Config.
    """
    settings = config.model_dump(mode="json")
    return yaml.dump(settings, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=math.inf)


def is_resolved(path: Path) -> bool:
    """Return whether a file is what ``dump_config`` writes, or wrote when there were fewer keys."""
    try:
        lines = read_small(path).decode().splitlines()
        written = dump_config(load_config(path)).splitlines()
    except (OSError, UnicodeDecodeError, ConfigError):
        return False
    sections = {line for line in written if re.fullmatch(r"\w+:", line)}
    sections.discard("evaluation:")  # of which earlier versions wrote nothing
    remaining = iter(written)
    return sections <= set(lines) and all(line in remaining for line in lines)


_TAGS = {
    str: "tag:yaml.org,2002:str",
    int: "tag:yaml.org,2002:int",
    float: "tag:yaml.org,2002:float",
    bool: "tag:yaml.org,2002:bool",
    type(None): "tag:yaml.org,2002:null",
}


class _Dumper(yaml.SafeDumper):
    """Quotes the text that our reading, not YAML 1.1, would take for something else."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is yaml.ScalarNode and implicit == (True, False):  # a scalar without quotes
            return _TAGS[type(parse_scalar(value))]
        return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]


_Dumper.add_representer(
    list, lambda dumper, items: dumper.represent_sequence("tag:yaml.org,2002:seq", items, True)
)
