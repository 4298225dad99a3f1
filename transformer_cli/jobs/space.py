"""The settings that a search varies, and the values that each may take."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from transformer_cli.config.setting_tree import (
    Keys,
    Node,
    Place,
    describe_value,
    setting_error,
    values,
)
from transformer_cli.errors import did_you_mean

_SEARCH = "search"
_KINDS = {
    (False, False): "uniform",
    (False, True): "log",
    (True, False): "int",
    (True, True): "int_log",
}
"""Names of ranges, by whether they are of whole numbers, and even in the logarithm."""
# What Optuna, Ray Tune, Weights & Biases and Hyperopt call them.
_OTHER_NAMES = {
    "float": "uniform",
    "loguniform": "log",
    "log_uniform": "log",
    "log_uniform_values": "log",
    "randint": "int",
    "int_uniform": "int",
    "uniformint": "int",
    "lograndint": "int_log",
    "log_int": "int_log",
}
_CHOICE_NAMES = ("choice", "choices", "categorical", "values")
_LARGEST = 1e15
_DIGITS = 4
"""Significant digits of a drawn number: readable, and the same on every machine."""


@dataclass(frozen=True)
class Choices:
    """A setting that takes one of several values, of any type that YAML has."""

    place: Place
    options: tuple[object, ...]

    @property
    def labels(self) -> list[str]:
        """The options as texts, which is what a study records: Optuna takes scalars only."""
        return [json.dumps(option, ensure_ascii=False) for option in self.options]

    @property
    def limits(self) -> tuple[object, ...]:
        """The values that have to be valid for all to be valid."""
        return self.options

    def describe(self) -> str:
        """Return it as a sweep file has it."""
        return f"[{', '.join(self.labels)}]"

    def record(self, drawn: object) -> object:
        """Return what a study records where Optuna drew ``drawn``: the same."""
        return drawn

    def decode(self, recorded: object) -> object:
        """Return the option that a study's record means."""
        return self.options[self.labels.index(str(recorded))]


@dataclass(frozen=True)
class Range:
    """A setting that takes any number between two, both included."""

    place: Place
    low: float
    high: float
    is_integer: bool
    is_log: bool

    @property
    def limits(self) -> tuple[object, ...]:
        """The values that have to be valid for all to be valid."""
        return (self.low, self.high)

    def describe(self) -> str:
        """Return it as a sweep file has it."""
        return f"{{{_KINDS[self.is_integer, self.is_log]}: [{self.low}, {self.high}]}}"

    def record(self, drawn: object) -> object:
        """Return what a study records where Optuna drew ``drawn``: rounded, and in the range."""
        assert isinstance(drawn, int | float)
        if self.is_integer:
            return int(drawn)
        return min(max(float(f"{drawn:.{_DIGITS}g}"), self.low), self.high)

    def decode(self, recorded: object) -> object:
        """Return the number that a study's record means: the same."""
        return recorded


@dataclass(frozen=True)
class SearchSpace:
    """All settings that a search varies, by dotted key."""

    dimensions: Mapping[str, Choices | Range]

    def record(self, drawn: Mapping[str, object]) -> dict[str, object]:
        """Return what a study records of a trial for which Optuna drew ``drawn``."""
        return {key: each.record(drawn[key]) for key, each in self.dimensions.items()}

    def decode(self, recorded: Mapping[str, object]) -> dict[str, object]:
        """Return the values of a trial, by dotted key."""
        return {key: each.decode(recorded[key]) for key, each in self.dimensions.items()}

    def limits(self) -> Iterator[tuple[str, object, Place]]:
        """Yield the values that have to fit the schema: all choices, and the ends of ranges."""
        for key, each in self.dimensions.items():
            for value in each.limits:
                yield key, value, each.place

    @property
    def is_finite(self) -> bool:
        """Whether its points can be counted."""
        return all(
            isinstance(each, Choices) or each.is_integer for each in self.dimensions.values()
        )

    def iter_points(self) -> Iterator[dict[str, object]]:
        """Yield all points of a finite space as a study records them."""
        axes = (
            each.labels if isinstance(each, Choices) else range(int(each.low), int(each.high) + 1)
            for each in self.dimensions.values()
        )
        for point in product(*axes):
            yield dict(zip(self.dimensions, point, strict=True))


def read_space(node: Node) -> SearchSpace:
    """Read the ``search`` section of a sweep file.

    A list is choices. A range is a section of one key, the name of its distribution, as in
    ``{log: [5e-4, 5e-3]}``.

    Raises:
        ConfigError: it is no such section, or a range or a list of choices makes no sense.
    """
    if not isinstance(node.value, dict) or not node.value:
        found = "nothing" if node.value == {} else describe_value(values(node))
        problem = f"expected settings and their values, found {found}"
        raise setting_error(node.place, (_SEARCH,), problem)
    return SearchSpace({key: _dimension(key, below) for key, below in node.value.items()})


def _dimension(key: str, node: Node) -> Choices | Range:
    keys = (_SEARCH, *key.split("."))
    match node.value:
        case list():
            return _choices(keys, node)
        case dict() as entries if len(entries) == 1:
            [(name, bounds)] = entries.items()
            return _range(keys, name, bounds)
    problem = "expected a list of choices, or a range as in {log: [5e-4, 5e-3]}; found "
    raise setting_error(node.place, keys, problem + describe_value(values(node)))


def _choices(keys: Keys, node: Node) -> Choices:
    options = values(node)
    assert isinstance(options, list)
    choices = Choices(node.place, tuple(options))
    labels = choices.labels
    problem = None
    if len(labels) < 2:
        problem = f"expected two choices or more, found {len(labels)}; "
        problem += "what is fixed belongs in the base"
    for index, label in enumerate(labels):
        if label in labels[:index]:
            problem = f"{label} is there twice; keep one"
    if problem is not None:
        raise setting_error(node.place, keys, problem)
    return choices


def _range(keys: Keys, name: str, node: Node) -> Range:
    if name not in _KINDS.values():
        raise setting_error(node.place, keys, _describe_unknown(name))
    is_integer, is_log = next(flags for flags, kind in _KINDS.items() if kind == name)
    keys = (*keys, name)
    bounds = values(node)
    problem = None
    if not (isinstance(bounds, list) and len(bounds) == 2 and all(map(_is_number, bounds))):
        problem = f"expected two numbers, found {describe_value(bounds)}"
        raise setting_error(node.place, keys, problem)
    low, high = bounds if is_integer else map(float, bounds)
    if is_integer and not (isinstance(low, int) and isinstance(high, int)):
        problem = f"expected whole numbers, found [{low}, {high}]"
    elif not low < high:
        problem = f"expected [A, B] with A less than B, found [{low}, {high}]"
    elif is_log and low <= 0:
        problem = f"has no logarithm at {low}; begin with more than 0"
    if problem is not None:
        raise setting_error(node.place, keys, problem)
    return Range(node.place, low, high, is_integer, is_log)


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < _LARGEST


def _describe_unknown(name: str) -> str:
    if name in _CHOICE_NAMES:
        return f"'{name}' is not needed; write the list alone"
    # It may be a setting: sections are not taken apart here.
    kinds = f"it is one of {', '.join(_KINDS.values())}"
    rule = f"{kinds}; a setting is one key with dots, as in model.dropout"
    hint = did_you_mean(name, _KINDS.values(), _OTHER_NAMES.get(name)) or rule
    return f"unknown distribution '{name}'; {hint}"
