"""Reading a YAML file of settings, and the files that it builds on."""

import os.path
from collections.abc import Iterator
from pathlib import Path

from transformer_cli.config.merge import merge
from transformer_cli.config.setting_tree import (
    Keys,
    Node,
    Place,
    describe_value,
    find_node,
    setting_error,
    shorten,
)
from transformer_cli.config.yaml_parser import parse
from transformer_cli.errors import ConfigError
from transformer_cli.files import read_small

BASE = "base"
"""The key that names the file whose settings a file changes; it is no setting itself."""
BASE_MEANS = (
    "YAML file whose settings this one changes or adds to; its path starts from this file's "
    "directory. Sections are merged key by key, one of another kind and lists are replaced"
)
MAX_YAML_BYTES = 1 << 20
"""A hundred times our longest files; YAML of this size takes seconds to parse."""


def read_settings(path: Path) -> Node:
    """Read a YAML file's settings over those of its base, and of that one's.

    Returns:
        a mapping, in which each value has the place where it was written.

    Raises:
        ConfigError: a file cannot be read, is not YAML or no mapping, or builds on itself. The
            message is one line with the file and line.
    """
    trees = [tree for _, tree in _read_chain(path)]
    settings = trees.pop()
    while trees:
        settings = merge(settings, trees.pop())
    return settings


def list_base_files(path: Path) -> list[Path]:
    """Return the files that ``read_settings`` reads: the one at ``path``, its base, and so on.

    Raises:
        ConfigError: as ``read_settings`` does.
    """
    return [file for file, _ in _read_chain(path)]


def _read_chain(path: Path) -> Iterator[tuple[Path, Node]]:
    """Read a file, its base, and so on."""
    file: Path | None = path
    seen: set[Path] = set()
    while file is not None:
        tree = read_mapping(file, "data and tokenizer")
        seen.add(file.resolve())
        base = _base(file, tree, seen)
        yield file, tree
        file = base


def _base(path: Path, tree: Node, seen: set[Path]) -> Path | None:
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

    Args:
        path: the file that the setting is in.
        root: what it holds.
        keys: the setting.
        owner: whose directory it is, for the message.

    Raises:
        ConfigError: there is no such file.
    """
    node = find_node(root, keys)
    assert node is not None
    rule = f"its path starts from {owner} directory"
    return Path(os.path.normpath(_find_beside(path, node, keys, rule)))


def _find_beside(path: Path, node: Node, keys: Keys, rule: str) -> Path:
    # Not Path.expanduser, which raises where there is no such user.
    found = path.parent / os.path.expanduser(str(node.value))  # noqa: PTH111
    # Not Path.is_file, which raises where a name is too long.
    if not os.path.isfile(found):  # noqa: PTH113
        missing = shorten(str(found), 300)
        raise setting_error(node.place, keys, f"there is no file {missing}; {rule}")
    return found


def read_mapping(path: Path, keys: str) -> Node:
    """Read one YAML file, which has to be a mapping.

    Args:
        path: the file.
        keys: some that it needs, for the messages.

    Raises:
        ConfigError: it cannot be read, or is not YAML or no mapping.
    """
    root = parse(_read_text(path), lambda line: Place(path.as_posix(), line))
    if root.value is None:
        raise setting_error(root.place, (), f"the file is empty; it needs at least {keys}")
    if not isinstance(root.value, dict):
        found = describe_value(root.value)
        raise setting_error(root.place, (), f"expected keys such as {keys}, found {found}")
    return root


def _read_text(path: Path) -> str:
    try:
        content = read_small(path, MAX_YAML_BYTES)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; give the path of a YAML file") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a directory; give the path of a YAML file") from None
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror}; give the path of a YAML file"
        ) from error
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        place = Place(str(path), content.count(b"\n", 0, error.start) + 1)
        problem = f"the byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise setting_error(place, (), problem) from error
