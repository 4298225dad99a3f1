"""Reading configuration files strictly, each over the files that it builds on; and writing one."""

import math
import os.path
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from transformer_cli.config.differences import as_yaml
from transformer_cli.config.origins import SET, Origin, Origins, origins_of
from transformer_cli.config.schema import Config
from transformer_cli.config.setting_tree import (
    BASE,
    Keys,
    Node,
    Place,
    describe_value,
    find_node,
    iter_leaves,
    join_keys,
    parse,
    parse_scalar,
    setting_error,
    shorten,
    values,
)
from transformer_cli.config.validation import check_paths, validate_as
from transformer_cli.errors import ConfigError
from transformer_cli.files import read_small

MAX_YAML_BYTES = 1 << 20
"""A hundred times our longest files; YAML of this size takes seconds to parse."""
_WIDEST = 40
"""Columns of a line that the comments beside it make room for; those of wider ones stand out."""


def load_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Return the settings of a YAML file; see ``load_settings``."""
    return load_settings(path, overrides)[0]


def load_settings(path: Path, overrides: Sequence[str] = ()) -> tuple[Config, Origins]:
    """Read a YAML file, change it as the command line says, and check every key and value.

    ``overrides`` are KEY=VALUE each, VALUE in YAML; they may add keys and replace sections.

    Returns:
        the settings, and where those that are no defaults were written.

    Raises:
        ConfigError: one line with the file and line, or the override, that is wrong.
    """
    root = read_settings(path)
    for override in overrides:
        _apply(override, root)
    config = check_settings(root)
    return config, origins_of(config, root)


def check_settings(root: Node) -> Config:
    """Return a tree as a ``Config``, and check that the paths in it are there."""
    config = validate_as(Config, root)
    check_paths(config, root)
    return config


# --- files and their bases ------------------------------------------------------------------------


def read_settings(path: Path) -> Node:
    """Read a YAML file's settings over those of its base, and of that one's.

    Raises:
        ConfigError: a file cannot be read, is not YAML or no mapping, or builds on itself.
    """
    trees = [tree for _, tree in _read_chain(path)]
    settings = trees.pop()
    while trees:
        settings = merge(settings, trees.pop())
    return settings


def list_base_files(path: Path) -> list[Path]:
    """Return the files that ``read_settings`` reads: the one at ``path``, its base, and so on."""
    return [file for file, _ in _read_chain(path)]


def _read_chain(path: Path) -> Iterator[tuple[Path, Node]]:
    """Read a file, its base, and so on."""
    file: Path | None = path
    seen: set[Path] = set()
    while file is not None:
        tree = read_mapping(file, "data and tokenizer")
        seen.add(file.resolve())
        base = _pop_base(file, tree, seen)
        yield file, tree
        file = base


def _pop_base(path: Path, tree: Node, seen: set[Path]) -> Path | None:
    """Take from a file's tree what it builds on, which must be none of those seen."""
    assert isinstance(tree.value, dict)
    node = tree.value.pop(BASE, None)
    if node is None:
        return None
    if not isinstance(node.value, str) or not node.value:
        problem = f"expected the path of a YAML file, found {describe_value(node.value)}"
        raise setting_error(node.place, (BASE,), problem)
    base = _find_beside(path, node, (BASE,), "a base's path starts from its file's directory")
    if base.resolve() in seen:
        problem = f"{base} is this file, or one that builds on it; take another, or none"
        raise setting_error(node.place, (BASE,), problem)
    return base


def find_beside(path: Path, root: Node, keys: Keys, owner: str) -> Path:
    """Return the file that a setting names, whose path starts from the directory of its own file.

    ``owner`` says whose directory that is, for the message.
    """
    node = find_node(root, keys)
    assert node is not None
    rule = f"its path starts from {owner} directory"
    return Path(os.path.normpath(_find_beside(path, node, keys, rule)))


def _find_beside(path: Path, node: Node, keys: Keys, rule: str) -> Path:
    # Not Path.expanduser, which raises where there is no such user.
    file = path.parent / os.path.expanduser(str(node.value))  # noqa: PTH111
    # Not Path.is_file, which raises where a name is too long.
    if not os.path.isfile(file):  # noqa: PTH113
        missing = shorten(str(file), 300)
        raise setting_error(node.place, keys, f"there is no file {missing}; {rule}")
    return file


def read_mapping(path: Path, keys: str) -> Node:
    """Read one YAML file, which has to be a mapping; ``keys`` names some that it needs."""
    root = parse(_read_text(path), lambda line: Place(path.as_posix(), line))
    if root.value is None:
        raise setting_error(root.place, (), f"the file is empty; it needs at least {keys}")
    if not isinstance(root.value, dict):
        problem = f"expected keys such as {keys}, found {describe_value(root.value)}"
        raise setting_error(root.place, (), problem)
    return root


def _read_text(path: Path) -> str:
    try:
        content = read_small(path, MAX_YAML_BYTES)
    except OSError as error:
        problem = {FileNotFoundError: "no such file", IsADirectoryError: "is a directory"}.get(
            type(error), f"cannot be read: {error.strerror}"
        )
        raise ConfigError(f"{path}: {problem}; give the path of a YAML file") from error
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        place = Place(str(path), content.count(b"\n", 0, error.start) + 1)
        problem = f"the byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise setting_error(place, (), problem) from error


# --- one setting over another ---------------------------------------------------------------------


def merge(base: Node, over: Node) -> Node:
    """Return the settings of ``base``, overridden by those of ``over``.

    Mappings are merged key by key. Anything else is replaced, and so is a section of another
    ``kind``: what is left of the old kind's keys would mean nothing to the new one.
    """
    are_sections = isinstance(base.value, dict) and isinstance(over.value, dict)
    if not are_sections or _differ_in_kind(base, over):
        return _replace(base, over)
    assert isinstance(base.value, dict)
    assert isinstance(over.value, dict)
    entries = dict(base.value)
    for key, node in over.value.items():
        entries[key] = merge(entries[key], node) if key in entries else node
    return Node(entries, over.place)


def _replace(old: Node, new: Node) -> Node:
    """Return ``new``, whose settings remember those of ``old`` that they replace."""
    if not isinstance(old.value, dict) or not isinstance(new.value, dict):
        return Node(new.value, new.place, replaced=old)
    entries = dict(new.value)
    # A warm-up of another kind of schedule is another setting.
    comparable = ["kind"] if _differ_in_kind(old, new) else list(entries)
    for key in comparable:
        if key in entries and key in old.value:
            entries[key] = _replace(old.value[key], entries[key])
    return Node(entries, new.place)


def _differ_in_kind(old: Node, new: Node) -> bool:
    kinds = [find_node(node, ("kind",)) for node in (old, new)]
    names = {kind.value for kind in kinds if kind and isinstance(kind.value, str)}
    return len(names) == 2


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
    """Put a setting, or a section, at a path: in the place of another one or of none."""
    *above, last = keys
    entries = _entries(root, (), new.place)
    for depth, key in enumerate(above, start=1):
        section = entries.setdefault(key, Node({}, new.place))
        entries = _entries(section, keys[:depth], new.place)
    entries[last] = _replace(entries[last], new) if last in entries else new


def _entries(section: Node, keys: Keys, place: Place) -> dict[str, Node]:
    if not isinstance(section.value, dict):
        problem = f"is {describe_value(section.value)} and has no keys to set"
        raise setting_error(place, keys, problem)
    return section.value


# --- writing --------------------------------------------------------------------------------------


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
    remaining = iter(written)
    return sections <= set(lines) and all(line in remaining for line in lines)


def annotate(config: Config, origins: Origins) -> str:
    """Return the YAML text of a configuration, with each setting's origin as a comment."""
    text = dump_config(config)
    lines = text.splitlines()
    root = parse(text, lambda number: Place("", number))
    comments = {}
    for keys, value in iter_leaves(values(root)):
        node = find_node(root, keys)
        assert node is not None
        comments[node.place.line - 1] = _comment(value, origins.get(join_keys(keys)))
    widths = [len(lines[number]) for number in comments]
    column = max(width for width in widths if width <= _WIDEST)
    for number, comment in comments.items():
        lines[number] = f"{lines[number]:<{column}}  # {comment}"
    return "".join(f"{line}\n" for line in lines)


def _comment(value: object, origin: Origin | None) -> str:
    if origin is None:
        return "default"
    text = str(origin)
    if origin.replaced and origin.replaced[0].value != value:
        old = origin.replaced[0]
        text += f", instead of {shorten(as_yaml(old.value))} in {old}"
    # A file's name may have anything in it.
    return "".join(character if character.isprintable() else "?" for character in text)


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
