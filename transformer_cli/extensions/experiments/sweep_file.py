"""A sweep's YAML file: its settings, its points, and the ranges that a search varies."""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from transformer_cli.base.errors import CorpusError, did_you_mean
from transformer_cli.base.metrics import RankName
from transformer_cli.config import yaml
from transformer_cli.config.differences import as_yaml
from transformer_cli.config.languages import has_case
from transformer_cli.config.schema import Config
from transformer_cli.config.sections import Count, Section
from transformer_cli.config.setting_tree import (
    BASE,
    Keys,
    Node,
    Place,
    describe_value,
    find_place,
    setting_error,
    values,
)
from transformer_cli.config.validation import validate_as
from transformer_cli.data.kinds import check_split

Values = Annotated[list[Any], Field(min_length=1)]
Seeds = Annotated[int, Field(gt=0, le=1000)]
Draws = Literal["tpe", "random"]
Prune = Literal["none", "median", "halving"]
_BUDGET = re.compile(r"([0-9]+(?:\.[0-9]+)?)(min|h|d)")
_SECONDS = {"min": 60.0, "h": 3600.0, "d": 86400.0}
_OF_SEARCH = ("trials", "budget", "sampler", "prune", "metric")


class SweepSettings(Section):
    """A sweep: which variations of a configuration to train, and how often."""

    base: str = Field(
        description="configuration whose settings are varied; its path starts from this file's "
        "directory"
    )
    seeds: Seeds | None = Field(
        None,
        description="each point is trained with the seeds 1 to this number; null: 3, in a search 1",
    )
    grid: dict[str, Values] = Field(
        default={}, description="values by setting; every combination is a point"
    )
    search: dict[str, Any] = Field(
        default={}, description="ranges and choices by setting, which Optuna draws points from"
    )
    trials: Count = Field(20, description="most points that a search draws")
    budget: str | None = Field(
        None,
        description="a search draws no point after this much time (90min, 6h, 2d): that of all "
        "trainings together, divided by --jobs",
    )
    sampler: Draws = Field("tpe", description="how a search draws points")
    prune: Prune = Field(
        "none", description="which trainings of a search are stopped early, by their validations"
    )
    metric: RankName | None = Field(
        None,
        description="metric to maximize (the loss: to minimize), at the best validation; null: "
        "what the base's training.select says",
    )
    evaluate: list[str] = Field(
        default=[], description="splits that all runs are scored on at the end, all alike"
    )

    @property
    def num_seeds(self) -> int:
        return self.seeds or (1 if self.search else 3)

    @property
    def budget_seconds(self) -> float | None:
        match = _BUDGET.fullmatch(self.budget or "")
        return float(match[1]) * _SECONDS[match[2]] if match else None

    @model_validator(mode="after")
    def _keys_agree(self) -> Self:
        if not self.base:
            raise ValueError("base: expected the path of a YAML file, found an empty text")
        if self.budget is not None and self.budget_seconds is None:
            raise ValueError(
                f"budget: expected a time such as 90min, 6h or 2d, found {self.budget!r}"
            )
        if self.grid and self.search:
            raise ValueError("search: a sweep has a grid or a search; leave one of them out")
        unused = [key for key in _OF_SEARCH if key in self.model_fields_set]
        if unused and not self.search:
            raise ValueError(f"{unused[0]}: belongs to a search, and there is none; leave it out")
        return self


BASE_POINT = "base"  # the name of the only point of a sweep without a grid
SEED = "seed"
_UNSAFE = re.compile(r"[^\w.+-]+")
_MAX_NAME = 100


@dataclass(frozen=True)
class Point:
    """Settings that are trained together."""

    name: str  # of its directory
    nodes: dict[str, Node] = field(default_factory=dict)
    """What it changes in the base, by dotted key, with the place in the sweep's file."""
    number: int = 0  # of the trial, in a search
    label: str = ""  # of a trial: its name and settings

    @property
    def options(self) -> list[str]:
        """The changes as options of ``train``; JSON is YAML."""
        changes = {key: values(node) for key, node in self.nodes.items()}
        texts = [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in changes.items()]
        return [part for text in texts for part in ("--set", text)]


def as_node(value: object, place: Place) -> Node:
    """Return a value as a tree; all its parts get the same place."""
    match value:
        case dict():
            return Node({str(key): as_node(below, place) for key, below in value.items()}, place)
        case list():
            return Node([as_node(below, place) for below in value], place)
        case str() | int() | float() | None:
            return Node(value, place)
    raise TypeError(value)


def grid_points(grid: Node | None) -> list[Point]:
    """Return all combinations of a grid's values; those of the last key vary fastest.

    ``grid`` has lists of values by dotted key; None: one point that changes nothing.
    """
    if grid is None or not grid.value:
        return [Point(BASE_POINT)]
    assert isinstance(grid.value, dict)
    lists = []
    for key, node in grid.value.items():
        assert isinstance(node.value, list)
        texts = [json.dumps(values(option), sort_keys=True) for option in node.value]
        for number, text in enumerate(texts):
            if text in texts[:number]:
                problem = f"{text} is there twice; leave one out"
                raise setting_error(node.value[number].place, (key,), problem)
        lists.append(node.value)
    combinations = [dict(zip(grid.value, nodes, strict=True)) for nodes in product(*lists)]
    return [Point(*pair) for pair in zip(point_names(combinations), combinations, strict=True)]


def as_name(text: str) -> str:
    """Return a text as a valid filename, on Windows too."""
    return _UNSAFE.sub("-", text).strip("-.")


def point_names(points: Sequence[dict[str, Node]]) -> list[str]:
    """Name points by their values: ``dropout=0.1,label_smoothing=0.0``.

    Only the last part of a key is used unless two keys share it. If values make no unique or no
    valid filenames, points are named by a checksum.
    """
    last = {key: key.rpartition(".")[2] for key in points[0]}
    counts = Counter(last.values())
    short = {key: name if counts[name] == 1 else key for key, name in last.items()}
    names = [
        ",".join(f"{short[key]}={as_name(as_yaml(values(node)))}" for key, node in nodes.items())
        for nodes in points
    ]
    is_unique = len(set(map(str.casefold, names))) == len(names)
    if is_unique and max(len(name.encode()) for name in names) <= _MAX_NAME:
        return names
    # The names depend on content only, so that a grid may grow.
    contents = [
        [f"{key}={json.dumps(values(node), sort_keys=True)}" for key, node in nodes.items()]
        for nodes in points
    ]
    sums = [hashlib.sha256(repr(sorted(content)).encode()) for content in contents]
    return [f"point-{each.hexdigest()[:8]}" for each in sums]


# --- what a search varies -------------------------------------------------------------------------


_CHOICES = "choices"
_RANGES = {
    "uniform": (False, False),
    "log": (False, True),
    "int": (True, False),
    "int_log": (True, True),
}
"""By a range's name: whether it has whole numbers only, and whether it is logarithmic."""
_LARGEST = 1e15
_DIGITS = 4  # significant digits of drawn numbers, which are then the same on every machine


@dataclass(frozen=True)
class Dimension:
    """A setting that a search varies: one of several values, or a number in a range."""

    place: Place
    kind: str  # 'choices', or a key of ``_RANGES``
    limits: tuple[Any, ...]
    """The choices, or both ends of the range."""

    @property
    def labels(self) -> list[str]:
        """The choices as texts, as a study records them, because Optuna only takes scalars."""
        return [json.dumps(choice, ensure_ascii=False) for choice in self.limits]

    @property
    def records(self) -> Sequence[object] | None:
        """All values that a study may record; None: they cannot be counted."""
        if self.kind == _CHOICES:
            return self.labels
        return range(self.limits[0], self.limits[1] + 1) if _RANGES[self.kind][0] else None

    @property
    def samples(self) -> tuple[Any, ...]:
        """The limits and, for a range of fractions, a value between them."""
        if self.records is not None:
            return self.limits
        low, high = self.limits
        return (*self.limits, low + (high - low) / math.pi)

    def describe(self) -> str:
        """Return the text that a sweep's file has for it."""
        if self.kind == _CHOICES:
            return f"[{', '.join(self.labels)}]"
        return f"{{{self.kind}: [{self.limits[0]}, {self.limits[1]}]}}"

    def record(self, drawn: Any) -> object:
        """Return what a study records when Optuna draws a value: rounded, but in the range."""
        if self.records is not None:
            return drawn
        low, high = self.limits
        return min(max(float(f"{drawn:.{_DIGITS}g}"), low), high)

    def decode(self, recorded: object) -> object:
        if self.kind == _CHOICES:
            return self.limits[self.labels.index(str(recorded))]
        return recorded

    def distribution(self, optuna_distributions: Any) -> Any:
        if self.kind == _CHOICES:
            return optuna_distributions.CategoricalDistribution(self.labels)
        is_integer, is_log = _RANGES[self.kind]
        kind = "IntDistribution" if is_integer else "FloatDistribution"
        return getattr(optuna_distributions, kind)(*self.limits, log=is_log)


Space = Mapping[str, Dimension]  # all settings that a search varies, by dotted key


def read_space(node: Node) -> Space:
    """Read the ``search`` section of a sweep file.

    A list has choices. A range is a section with one key, the name of its distribution:
    ``{log: [5e-4, 5e-3]}``.
    """
    assert isinstance(node.value, dict)
    return {key: _read_dimension(key, below) for key, below in node.value.items()}


def _read_dimension(key: str, node: Node) -> Dimension:
    keys: Keys = ("search", *key.split("."))
    match node.value:
        case list() as choices:
            return _read_choices(keys, node.place, [values(choice) for choice in choices])
        case dict() as entries if len(entries) == 1:
            [(name, bounds)] = entries.items()
            return _read_range(keys, name, bounds)
    problem = "expected a list of choices, or a range as in {log: [5e-4, 5e-3]}; found "
    raise setting_error(node.place, keys, problem + describe_value(values(node)))


def _read_choices(keys: Keys, place: Place, choices: list[object]) -> Dimension:
    dimension = Dimension(place, _CHOICES, tuple(choices))
    labels = dimension.labels
    if len(labels) < 2:
        problem = f"expected two choices or more, found {len(labels)}; "
        raise setting_error(place, keys, f"{problem}what is fixed belongs in the base")
    for index, label in enumerate(labels):
        if label in labels[:index]:
            raise setting_error(place, keys, f"{label} is there twice; keep one")
    return dimension


def _read_range(keys: Keys, name: str, node: Node) -> Dimension:
    if name not in _RANGES:
        # It may be a setting in a section, which must be written as one dotted key.
        rule = "a setting is one key with dots, as in model.dropout"
        hint = did_you_mean(name, _RANGES) or f"it is one of {', '.join(_RANGES)}; {rule}"
        raise setting_error(node.place, keys, f"unknown distribution '{name}'; {hint}")
    is_integer, is_log = _RANGES[name]
    ends: Any = values(node)
    problem = None
    if not isinstance(ends, list) or len(ends) != 2 or not all(map(_is_number, ends)):
        problem = f"expected two numbers, found {describe_value(ends)}"
    elif is_integer and not all(isinstance(end, int) for end in ends):
        problem = f"expected whole numbers, found {ends}"
    elif not ends[0] < ends[1]:
        problem = f"expected [A, B] with A less than B, found {ends}"
    elif is_log and ends[0] <= 0:
        problem = f"has no logarithm at {ends[0]}; begin with more than 0"
    if problem is not None:
        raise setting_error(node.place, (*keys, name), problem)
    return Dimension(node.place, name, tuple(ends if is_integer else map(float, ends)))


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < _LARGEST


# --- the file -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sweep:
    """A checked sweep file."""

    settings: SweepSettings
    base: Path  # the configuration that the points are variations of
    tree: Node  # that configuration, with its bases
    points: list[Point]
    """The grid's; one without changes if there is no grid. Empty for a search."""
    space: Space | None  # what a search draws points from

    @property
    def samples(self) -> list[Point]:
        """The grid's points; for a search, points that cover each choice and each end of a range.

        If these are valid, all points of the search are. A range of fractions also has one
        between its ends.
        """
        if self.space is None:
            return self.points
        limits = {
            key: [as_node(value, dimension.place) for value in dimension.samples]
            for key, dimension in self.space.items()
        }
        points = [{key: nodes[0] for key, nodes in limits.items()}]
        for key, nodes in limits.items():
            points += [{**points[0], key: node} for node in nodes[1:]]
        return [Point(*named) for named in zip(point_names(points), points, strict=True)]

    @property
    def num_points(self) -> int:
        """Number of points that there will be, at most."""
        return len(self.points) or self.settings.trials

    def config_of(self, point: Point) -> Config:
        """Return the settings of a point; ConfigError names the place in the sweep's file."""
        root = self.tree
        for keys, node in point.nodes.items():
            root = yaml.set_node(root, keys.split("."), node)
        return yaml.check_settings(root)


def load_sweep(path: Path) -> Sweep:
    """Read a sweep's file, and check each point of its grid."""
    root = yaml.read_mapping(path, "base")
    assert isinstance(root.value, dict)
    if root.value.keys() & Config.model_fields.keys():
        problem = f"write a file with base: {path.name}, and grid: settings' values"
        raise setting_error(root.place, (), f"is a configuration; {problem}")
    settings = validate_as(SweepSettings, root)
    base = yaml.find_beside(path, root.value[BASE], (BASE,))
    grid = root.value.get("grid")
    search = root.value["search"] if settings.search else None
    for section in (grid, search):
        if section is not None:
            _check_keys(section)
    space = read_space(search) if search else None
    points = [] if search else grid_points(grid)
    sweep = Sweep(settings, base, yaml.read_settings(base), points, space)
    for point in sweep.samples:
        _check_scored(root, settings, sweep.config_of(point))
    return sweep


def _check_keys(section: Node) -> None:
    """Check the dotted keys of a grid or a search; the schema checks that they are settings."""
    assert isinstance(section.value, dict)
    for key, node in section.value.items():
        above = [other for other in section.value if key.startswith(f"{other}.")]
        problem = None
        if above:
            problem = f"{key}: is part of {above[0]}, which is varied too; leave one out"
        elif key == SEED:
            problem = "seed: every point has the same seeds; say how many with seeds"
        elif key == BASE:
            problem = "base: all points have one base; write another sweep for another"
        if problem is not None:
            raise setting_error(node.place, (), problem)


def _check_scored(root: Node, settings: SweepSettings, config: Config) -> None:
    """Check that a point has the splits to score, and the metric."""
    language = config.data.tgt_lang
    if settings.metric == "bleu_lc" and not has_case(language):
        problem = f"bleu_lc is not scored in '{language}', whose letters have no case; use bleu"
        raise setting_error(find_place(root, ("metric",)), ("metric",), problem)
    for number, split in enumerate(settings.evaluate):
        keys = ("evaluate", number)
        try:
            check_split(config.data, split)
        except CorpusError as error:
            raise setting_error(find_place(root, keys), keys, str(error)) from error
        if split != as_name(split):
            problem = f"no directory can be named {split}; rename the split in the base"
            raise setting_error(find_place(root, keys), keys, problem)
