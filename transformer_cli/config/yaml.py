"""Read configs strictly, merged into the base files that they build on; and write configs."""

import math
import os.path
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from transformer_cli.base.errors import ConfigError, find_similar
from transformer_cli.base.files import read_small
from transformer_cli.config import setting_tree as tree
from transformer_cli.config.schema import Config
from transformer_cli.config.validation import validate_as

SET = "--set"  # ``Place.source`` starts with it if a setting is from the command line
MAX_YAML_BYTES = 1 << 20
"""Maximum bytes of a config: a hundred times our longest one; parsing so much takes seconds."""


def load_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Return the settings of a YAML file, changed by ``overrides``; see ``load_settings``."""
    return load_settings(path, overrides)[0]


def load_settings(path: Path, overrides: Sequence[str] = ()) -> tuple[Config, tree.Node]:
    """Read a YAML file, apply the command line's changes, and check every key and value.

    Each of ``overrides`` is KEY=VALUE, with VALUE in YAML; it may add keys and replace sections.
    Return the settings and the tree that they were read from, which says where each was set.
    """
    root = reduce(_override, overrides, read_settings(path))
    return check_settings(root), root


def read_settings(path: Path) -> tree.Node:
    """Read a YAML file's settings, merged into the settings of its base, and so on."""
    files = [settings for _, settings in _read_chain(path)]
    return reduce(merge, reversed(files))


def list_base_files(path: Path) -> list[Path]:
    """Return the files that ``read_settings`` reads: the one at ``path``, its base, and so on."""
    return [file for file, _ in _read_chain(path)]


def check_settings(root: tree.Node) -> Config:
    """Return the values as a ``Config``; raise ConfigError if a path starts from a wrong directory.

    ``base`` is relative to the directory of its file; all other paths are relative to the working
    directory. A path that exists only relative to the directory of its file is an error.
    """
    config = validate_as(Config, root)
    for keys, path in tree.iter_leaves(config.model_dump(), into_lists=True):
        node = tree.find_node(root, keys) if isinstance(path, Path) else None
        if node is None or not node.place.line or not isinstance(node.value, str):
            continue
        beside = Path(node.place.source).parent / node.value
        # Not Path.exists, which raises if a name is too long.
        if not os.path.exists(str(path)) and os.path.exists(beside):  # noqa: PTH110
            start = "because paths start from the working directory"
            problem = f"there is no {path}, {start}; did you mean {beside}?"
            raise tree.setting_error(node.place, keys, problem)
    return config


def _read_chain(path: Path) -> Iterator[tuple[Path, tree.Node]]:
    """Yield a file, its base, and so on, each with its settings except ``base``."""
    file: Path | None = path
    seen: set[Path] = set()
    while file is not None:
        settings = read_mapping(file, "data and tokenizer")
        assert isinstance(settings.value, dict)
        entries = dict(settings.value)
        node = entries.pop(tree.BASE, None)
        seen.add(file.resolve())
        base = _find_base(file, node, seen) if node else None
        yield file, tree.Node(entries, settings.place)
        file = base


def _find_base(path: Path, node: tree.Node, seen: set[Path]) -> Path:
    """Return the file that ``base`` names, which must not be in ``seen``."""
    if not isinstance(node.value, str) or not node.value:
        problem = f"expected the path of a YAML file, found {tree.describe_value(node.value)}"
        raise tree.setting_error(node.place, (tree.BASE,), problem)
    base = find_beside(path, node, (tree.BASE,))
    if base.resolve() in seen:
        problem = f"{base} is this file, or builds on it; use another base, or none"
        raise tree.setting_error(node.place, (tree.BASE,), problem)
    return base


def find_beside(path: Path, node: tree.Node, keys: tree.Keys) -> Path:
    """Return the file that a setting in ``path`` names, relative to the directory of ``path``."""
    # Not Path.expanduser, which raises if there is no such user.
    file = path.parent / os.path.expanduser(str(node.value))  # noqa: PTH111
    # Not Path.is_file, which raises if a name is too long.
    if not os.path.isfile(file):  # noqa: PTH113
        missing = tree.shorten(str(file), 300)
        rule = f"its path starts from the directory of {path.name}"
        raise tree.setting_error(node.place, keys, f"there is no file {missing}; {rule}")
    plain = Path(os.path.normpath(file))
    # Behind a link, .. leads elsewhere.
    return plain if plain.is_file() and plain.samefile(file) else file


def read_mapping(path: Path, keys: str) -> tree.Node:
    """Read one YAML file, which must be a mapping; ``keys`` names some keys that it needs."""
    root = tree.parse(_read_text(path), path.as_posix())
    if root.value is None:
        raise tree.setting_error(root.place, (), f"the file is empty; it needs at least {keys}")
    if not isinstance(root.value, dict):
        problem = f"expected keys such as {keys}, found {tree.describe_value(root.value)}"
        raise tree.setting_error(root.place, (), problem)
    return root


def _read_text(path: Path) -> str:
    try:
        content = read_small(path, MAX_YAML_BYTES)
    except OSError as error:
        problem = {FileNotFoundError: "no such file", IsADirectoryError: "is a directory"}.get(
            type(error), f"cannot be read: {error.strerror}"
        )
        hint = _find_similar(path) if isinstance(error, FileNotFoundError) else None
        raise ConfigError(f"{path}: {problem}; {hint or 'give the path of a YAML file'}") from error
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        place = tree.Place(str(path), content.count(b"\n", 0, error.start) + 1)
        problem = f"the byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise tree.setting_error(place, (), problem) from error


def _find_similar(path: Path) -> str | None:
    """Return a question that suggests a YAML file next to ``path`` or in configs, or None."""
    places = dict.fromkeys((path.parent, Path("configs")))
    found = [file for place in places for file in islice(place.glob("*.y*ml"), 1000)]
    # Compare stems: a shared directory and ending would make all names similar.
    by_stem = {file.stem: file for file in reversed(found)}
    similar = find_similar(path.stem, by_stem)
    return f"did you mean '{by_stem[similar].as_posix()}'?" if similar else None


def merge(old: tree.Node, new: tree.Node, keeps_rest: bool = True) -> tree.Node:
    """Merge ``new`` into ``old``; new nodes remember the nodes that they replace.

    Sections are merged key by key; with ``keeps_rest``, keys that ``new`` leaves out stay. Anything
    else is replaced. So is a section if its ``kind`` changes, because the old kind's keys would
    mean nothing to the new kind.
    """
    if not isinstance(old.value, dict) or not isinstance(new.value, dict):
        return tree.Node(new.value, new.place, replaced=old)
    kinds = [kind.value for part in (old.value, new.value) if (kind := part.get("kind"))]
    differ_in_kind = len({kind for kind in kinds if isinstance(kind, str)}) == 2
    keeps_rest = keeps_rest and not differ_in_kind
    entries = dict(old.value) if keeps_rest else {}
    for key, node in new.value.items():
        # For example, the warm-up of another kind of schedule is a different setting.
        is_same = key in old.value and (key == "kind" or not differ_in_kind)
        entries[key] = merge(old.value[key], node, keeps_rest) if is_same else node
    return tree.Node(entries, new.place)


def _override(root: tree.Node, override: str) -> tree.Node:
    """Return the settings with one change from the command line, KEY=VALUE."""
    place = tree.Place(f"{SET} {' '.join(override.split())}")
    dotted_key, equals, text = override.partition("=")
    keys = tuple(dotted_key.split("."))
    if not equals or not all(keys):
        raise tree.setting_error(place, (), "expected KEY=VALUE, e.g. training.epochs=20")
    if "[" in dotted_key:
        problem = "the items of a list cannot be set one by one; set the whole list"
        raise tree.setting_error(place, (), problem)
    if keys == (tree.BASE,):
        problem = "only a config file can set it; write one with this base and your changes"
        raise tree.setting_error(place, keys, problem)
    value = tree.parse(text, place.source, keys, has_lines=False).value
    return set_node(root, keys, tree.Node(value, place))


def set_node(root: tree.Node, keys: Sequence[str], new: tree.Node, depth: int = 0) -> tree.Node:
    """Return the settings with ``new`` at the path ``keys``, added or in place of an old value."""
    if not isinstance(root.value, dict):
        problem = f"is {tree.describe_value(root.value)} and has no keys to set"
        raise tree.setting_error(new.place, tuple(keys[:depth]), problem)
    key, old = keys[depth], root.value.get(keys[depth])
    if depth + 1 < len(keys):
        new = set_node(old or tree.Node({}, new.place), keys, new, depth + 1)
    elif old is not None:
        new = merge(old, new, keeps_rest=False)
    return tree.Node({**root.value, key: new}, root.place, root.replaced)


def dump_config(config: Config) -> str:
    """Return the YAML text that a run records: all keys of the core, even those at defaults.

    Keys that extensions add are left out if they have their default values.
    """
    return dump_settings(config.model_dump(mode="json"))


def dump_settings(settings: object) -> str:
    """Return the YAML text of a mapping; reading it gives the same values."""
    return yaml.dump(settings, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=math.inf)


class _Dumper(yaml.SafeDumper):
    """A YAML dumper that quotes text if our reader would otherwise not read it as text."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is yaml.ScalarNode and implicit == (True, False):  # a scalar without quotes
            scalar = tree.parse_scalar(value)
            name = "null" if scalar is None else type(scalar).__name__
            return f"tag:yaml.org,2002:{name}"
        return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]


_Dumper.add_representer(
    list, lambda dumper, items: dumper.represent_sequence("tag:yaml.org,2002:seq", items, True)
)
