"""Reading a configuration file strictly, and writing one with every key."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from transformer_cli.config.parsing import parse, plain_value
from transformer_cli.config.schema import Config
from transformer_cli.config.tree import Node, Place, complaint, shown
from transformer_cli.config.validation import validate
from transformer_cli.errors import ConfigError


def load_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Read a YAML file, change it as the command line says, and check every key and value.

    Args:
        path: a YAML file.
        overrides: ``KEY=VALUE`` each, in the order they are applied: KEY dotted as in
            ``training.schedule.warmup``, VALUE in YAML. They may add keys and replace sections.

    Raises:
        ConfigError: the file cannot be read, is not YAML or does not fit the schema, or an override
            does not. The message is one line with the file and line, or the override.
    """
    root = parse(_read(path), lambda line: Place(str(path), line))
    if root.value is None:
        raise complaint(root.place, (), "the file is empty; it needs at least data and tokenizer")
    if not isinstance(root.value, dict):
        found = shown(root.value)
        raise complaint(root.place, (), f"expected keys such as data and tokenizer, found {found}")
    for override in overrides:
        _apply(override, root)
    return validate(root)


def _read(path: Path) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; give the path of a YAML file") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a directory; give the path of a YAML file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        place = Place(str(path), content.count(b"\n", 0, error.start) + 1)
        problem = f"the byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise complaint(place, (), problem) from error


def _apply(override: str, root: Node) -> None:
    place = Place(f"--set {' '.join(override.split())}")
    dotted_key, equals, text = override.partition("=")
    keys = tuple(dotted_key.split("."))
    if not equals or not all(keys):
        raise complaint(place, (), "expected KEY=VALUE, as in training.epochs=20")
    section = root
    for depth, key in enumerate(keys):
        if not isinstance(section.value, dict):
            problem = f"is {shown(section.value)} and has no keys to set"
            raise complaint(place, keys[:depth], problem)
        section = section.value.setdefault(key, Node({}, place))
    section.value = parse(text, lambda line: place, keys).value
    section.place = place


def dump_config(config: Config) -> str:
    """The YAML text of a configuration with every key, defaults too, in the schema's order.

    Returns:
        what ``load_config`` reads back as an equal Config.
    """
    settings = config.model_dump(mode="json")
    return yaml.dump(settings, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=math.inf)


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
            return _TAGS[type(plain_value(value))]
        return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]


_Dumper.add_representer(
    list, lambda dumper, items: dumper.represent_sequence("tag:yaml.org,2002:seq", items, True)
)
