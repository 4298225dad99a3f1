"""Read a sweep's YAML file, which lists the variations of a config (points) to train."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from transformer_cli.base.errors import CorpusError
from transformer_cli.config import yaml
from transformer_cli.config.differences import as_yaml
from transformer_cli.config.schema import Config
from transformer_cli.config.sections import Section
from transformer_cli.config.setting_tree import BASE, Node, find_place, setting_error, values
from transformer_cli.config.validation import validate_as
from transformer_cli.data.kinds import check_split


class SweepSettings(Section):
    """The settings of a sweep: which variations of a config to train, with how many seeds."""

    base: str = Field(description="config to vary; its path is relative to this file")
    seeds: Annotated[int, Field(gt=0, le=1000)] = Field(
        3, description="train each point with seeds 1 to this number"
    )
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(
        default={}, description="values of each setting; every combination is a point"
    )
    points: list[dict[str, Any]] = Field(
        default=[], description="the settings of each point, instead of a grid"
    )
    evaluate: list[str] = Field(
        default=[], description="splits on which to compare all runs at the end"
    )

    @model_validator(mode="after")
    def _keys_agree(self) -> Self:
        if not self.base:
            raise ValueError("base: expected the path of a YAML file, found an empty text")
        if self.grid and self.points:
            raise ValueError("points: a sweep has either a grid or points; leave one of them out")
        if {} in self.points:
            number = self.points.index({})
            raise ValueError(f"points[{number}]: changes no setting; add one, or leave it out")
        return self


BASE_POINT = "base"  # the name of the only point of a sweep without a grid
SEED = "seed"
_UNSAFE = re.compile(r"[^\w.+-]+")
_MAX_NAME = 100


@dataclass(frozen=True)
class Point:
    """A point of a sweep: changes to settings of the base config, trained with several seeds."""

    name: str  # the name of its directory
    nodes: dict[str, Node] = field(default_factory=dict)
    """The changed settings, keyed by dotted key, with their positions in the sweep's file."""

    @property
    def options(self) -> list[str]:
        """The changes as ``--set`` options of ``train``; values are JSON, which is valid YAML."""
        changes = {key: values(node) for key, node in self.nodes.items()}
        texts = [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in changes.items()]
        return [part for text in texts for part in ("--set", text)]


@dataclass(frozen=True)
class Sweep:
    """A sweep's YAML file, after all checks: its settings, base config and points."""

    settings: SweepSettings
    base: Path  # the config that the points vary
    tree: Node  # that config, with its bases
    points: list[Point]

    @property
    def seeds(self) -> range:
        return range(1, self.settings.seeds + 1)

    def config_of(self, point: Point) -> Config:
        """Return a point's config; a ConfigError names the position in the sweep's file."""
        root = self.tree
        for keys, node in point.nodes.items():
            root = yaml.set_node(root, keys.split("."), node)
        return yaml.check_settings(root)


def load_sweep(path: Path) -> Sweep:
    """Read a sweep's file, and check the config of each of its points."""
    root = yaml.read_mapping(path, "base")
    assert isinstance(root.value, dict)
    if root.value.keys() & Config.model_fields.keys():
        problem = f"write a file with base: {path.name}, and grid: settings' values"
        raise setting_error(root.place, (), f"is a config; {problem}")
    settings = validate_as(SweepSettings, root)
    base = yaml.find_beside(path, root.value[BASE], (BASE,))
    points = _read_points(root.value)
    sweep = Sweep(settings, base, yaml.read_settings(base), points)
    for point in points:
        _check_splits(root, settings, sweep.config_of(point))
    return sweep


def _read_points(sections: dict[str, Node]) -> list[Point]:
    """Return the listed points, or else those of the grid, or else one that changes nothing."""
    points: list[dict[str, Node]] = []
    for number, node in enumerate(_items(sections.get("points"))):
        assert isinstance(node.value, dict)
        _check_keys(node.value)
        if _content(node.value) in map(_content, points):
            raise setting_error(node.place, ("points", number), "occurs twice; leave one out")
        points.append(node.value)
    if not points:
        grid = sections.get("grid")
        points = _grid_points(grid.value if grid and isinstance(grid.value, dict) else {})
    return [Point(*pair) for pair in zip(point_names(points), points, strict=True)]


def _grid_points(grid: dict[str, Node]) -> list[dict[str, Node]]:
    """Return all combinations of a grid's values; the last key varies fastest.

    ``grid`` maps dotted keys to lists of values; if it is empty, return one point without changes.
    """
    _check_keys(grid)
    for key, node in grid.items():
        texts = [json.dumps(values(option), sort_keys=True) for option in _items(node)]
        for number, text in enumerate(texts):
            if text in texts[:number]:
                problem = f"{text} occurs twice; leave one out"
                raise setting_error(_items(node)[number].place, (key,), problem)
    lists = map(_items, grid.values())
    return [dict(zip(grid, nodes, strict=True)) for nodes in product(*lists)]


def _items(node: Node | None) -> list[Node]:
    return node.value if node is not None and isinstance(node.value, list) else []


def as_name(text: str) -> str:
    """Turn ``text`` into a filename that is valid on all systems, including Windows."""
    return _UNSAFE.sub("-", text).strip("-.")


def point_names(points: Sequence[dict[str, Node]]) -> list[str]:
    """Return names made from the points' values, e.g. ``dropout=0.1,label_smoothing=0.0``.

    The names use only the last part of each key, unless two keys share it. If the names would not
    be unique or would be too long for filenames, they are checksums instead. A point that changes
    nothing is ``BASE_POINT``.
    """
    last = {key: key.rpartition(".")[2] for nodes in points for key in nodes}
    counts = Counter(last.values())
    short = {key: name if counts[name] == 1 else key for key, name in last.items()}
    names = [
        ",".join(f"{short[key]}={as_name(as_yaml(values(node)))}" for key, node in nodes.items())
        or BASE_POINT
        for nodes in points
    ]
    is_unique = len(set(map(str.casefold, names))) == len(names)
    if is_unique and max(len(name.encode()) for name in names) <= _MAX_NAME:
        return names
    # The names depend on content only, so that a grid can grow.
    sums = [hashlib.sha256(repr(_content(nodes)).encode()) for nodes in points]
    return [f"point-{each.hexdigest()[:8]}" for each in sums]


def _content(nodes: dict[str, Node]) -> list[str]:
    return sorted(
        f"{key}={json.dumps(values(node), sort_keys=True)}" for key, node in nodes.items()
    )


def _check_keys(section: dict[str, Node]) -> None:
    """Check a grid's or point's dotted keys; the schema checks later that they are settings."""
    for key, node in section.items():
        above = [other for other in section if key.startswith(f"{other}.")]
        problem = None
        if above:
            problem = f"{key}: is part of {above[0]}, which also varies; leave one out"
        elif key == SEED:
            problem = "seed: every point uses the same seeds; set their number with seeds"
        elif key == BASE:
            problem = "base: all points share one base; write another sweep for another base"
        if problem is not None:
            raise setting_error(node.place, (), problem)


def _check_splits(root: Node, settings: SweepSettings, config: Config) -> None:
    for number, split in enumerate(settings.evaluate):
        keys = ("evaluate", number)
        try:
            check_split(config.data, split)
        except CorpusError as error:
            raise setting_error(find_place(root, keys), keys, str(error)) from error
