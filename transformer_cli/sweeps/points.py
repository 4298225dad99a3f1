"""The points of a sweep: settings that are tried, each with a name."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

from transformer_cli.config.differences import as_yaml
from transformer_cli.config.setting_tree import Node, Place, setting_error, values

BASE_POINT = "base"
"""The name of the only point of a sweep without a grid."""
_UNSAFE = re.compile(r"[^\w.+-]+")
_LONGEST_NAME = 100


@dataclass(frozen=True)
class Point:
    """Settings that are tried together.

    Attributes:
        name: of its directory.
        nodes: what it changes of the base, by dotted key, with the place in the sweep's file.
    """

    name: str
    nodes: dict[str, Node] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, object]:
        """What it changes of the base, by dotted key."""
        return {key: values(node) for key, node in self.nodes.items()}

    @property
    def overrides(self) -> list[str]:
        """The same as ``--set`` takes it; JSON is YAML."""
        return [
            f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in self.values.items()
        ]


def as_node(value: object, place: Place) -> Node:
    """Return a value as a tree whose parts all have one place."""
    match value:
        case dict():
            return Node({str(key): as_node(below, place) for key, below in value.items()}, place)
        case list():
            return Node([as_node(below, place) for below in value], place)
        case str() | int() | float() | None:
            return Node(value, place)
    raise TypeError(value)


def grid_points(grid: Node | None) -> list[Point]:
    """Return all combinations of a grid's values, the last key's varying fastest.

    Args:
        grid: lists of values by dotted key; None: one point that changes nothing.

    Raises:
        ConfigError: a list has a value twice.
    """
    if grid is None or not grid.value:
        return [Point(BASE_POINT)]
    assert isinstance(grid.value, dict)
    lists = []
    for key, node in grid.value.items():
        assert isinstance(node.value, list)
        found = [json.dumps(values(each), sort_keys=True) for each in node.value]
        for number, each in enumerate(found):
            if each in found[:number]:
                raise setting_error(
                    node.value[number].place, (key,), f"{each} is there twice; leave one out"
                )
        lists.append(node.value)
    chosen = [dict(zip(grid.value, nodes, strict=True)) for nodes in product(*lists)]
    return [Point(*each) for each in zip(point_names(chosen), chosen, strict=True)]


def as_name(text: str) -> str:
    """Return a text as a name of files, on Windows as well."""
    return _UNSAFE.sub("-", text).strip("-.")


def point_names(points: Sequence[dict[str, Node]]) -> list[str]:
    """Name points by their values: ``dropout=0.1,label_smoothing=0.0``.

    A key's last part is enough unless two keys share it. Points whose values make no file names,
    or equal ones, are named by a checksum.
    """
    keys = [*points[0]]
    lasts = Counter(key.rpartition(".")[2] for key in keys)
    short = {key: last if lasts[last := key.rpartition(".")[2]] == 1 else key for key in keys}
    names = [
        ",".join(f"{short[key]}={_value_name(values(node))}" for key, node in nodes.items())
        for nodes in points
    ]
    if (
        len(set(map(str.casefold, names))) < len(names)
        or max(len(name.encode()) for name in names) > _LONGEST_NAME
    ):
        # By content, so that a grid may grow.
        sums = [hashlib.sha256(repr(sorted(each)).encode()) for each in map(_content, points)]
        return [f"point-{each.hexdigest()[:8]}" for each in sums]
    return names


def _content(nodes: dict[str, Node]) -> list[str]:
    return [f"{key}={json.dumps(values(node), sort_keys=True)}" for key, node in nodes.items()]


def _value_name(value: object) -> str:
    return as_name(as_yaml(value))
