"""The points of a sweep: settings that are tried, each with a name."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

from transformer_cli.config.differences import as_yaml
from transformer_cli.config.setting_tree import Node, Place, values

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
    """
    if grid is None or not grid.value:
        return [Point(BASE_POINT)]
    assert isinstance(grid.value, dict)
    lists = []
    for node in grid.value.values():
        assert isinstance(node.value, list)
        lists.append(node.value)
    chosen = [dict(zip(grid.value, nodes, strict=True)) for nodes in product(*lists)]
    return [Point(*each) for each in zip(point_names(chosen), chosen, strict=True)]


def point_names(points: Sequence[dict[str, Node]]) -> list[str]:
    """Name points by their values: ``dropout=0.1,label_smoothing=0.0``.

    A key's last part is enough unless two keys share it. Points whose values make no file names,
    or equal ones, are numbered.
    """
    keys = [*points[0]]
    lasts = Counter(key.rpartition(".")[2] for key in keys)
    short = {key: last if lasts[last := key.rpartition(".")[2]] == 1 else key for key in keys}
    names = [
        ",".join(f"{short[key]}={_as_name(values(node))}" for key, node in nodes.items())
        for nodes in points
    ]
    if len(set(map(str.casefold, names))) < len(names) or max(map(len, names)) > _LONGEST_NAME:
        return [f"point-{number}" for number in range(1, len(points) + 1)]
    return names


def _as_name(value: object) -> str:
    return _UNSAFE.sub("-", as_yaml(value)).strip("-")
