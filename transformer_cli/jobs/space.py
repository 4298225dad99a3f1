"""The settings that a search varies, and the values that each may take."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
_CHOICES = "choices"
_RANGES = {
    "uniform": (False, False),
    "log": (False, True),
    "int": (True, False),
    "int_log": (True, True),
}
"""By a range's name, whether it is of whole numbers, and even in the logarithm."""
# What Optuna, Ray Tune, Weights & Biases and Hyperopt call them.
_OTHER_NAMES = {
    **dict.fromkeys(("float",), "uniform"),
    **dict.fromkeys(("loguniform", "log_uniform", "log_uniform_values"), "log"),
    **dict.fromkeys(("randint", "int_uniform", "uniformint"), "int"),
    **dict.fromkeys(("lograndint", "log_int"), "int_log"),
    **dict.fromkeys(("choice", "choices", "categorical", "values"), _CHOICES),
}
_LARGEST = 1e15
_DIGITS = 4  # significant digits of a drawn number: readable, and the same on every machine


@dataclass(frozen=True)
class Dimension:
    """A setting that is varied: one of several values of any type, or a number in a range."""

    place: Place
    kind: str  # 'choices', or a key of ``_RANGES``
    limits: tuple[Any, ...]
    """The choices, or both ends of the range: what has to be valid for all values to be."""

    @property
    def labels(self) -> list[str]:
        """The choices as texts, which is what a study records: Optuna takes scalars only."""
        return [json.dumps(choice, ensure_ascii=False) for choice in self.limits]

    @property
    def records(self) -> Sequence[object] | None:
        """All that a study may record; None: that cannot be counted."""
        if self.kind == _CHOICES:
            return self.labels
        return range(self.limits[0], self.limits[1] + 1) if _RANGES[self.kind][0] else None

    def describe(self) -> str:
        """Return it as a sweep file has it."""
        if self.kind == _CHOICES:
            return f"[{', '.join(self.labels)}]"
        return f"{{{self.kind}: [{self.limits[0]}, {self.limits[1]}]}}"

    def record(self, drawn: Any) -> object:
        """Return what a study records where Optuna drew ``drawn``: rounded, and in the range."""
        if self.records is not None:
            return drawn
        low, high = self.limits
        return min(max(float(f"{drawn:.{_DIGITS}g}"), low), high)

    def decode(self, recorded: object) -> object:
        """Return the value that a study's record means."""
        if self.kind == _CHOICES:
            return self.limits[self.labels.index(str(recorded))]
        return recorded

    def distribution(self, optuna_distributions: Any) -> Any:
        """Return Optuna's distribution of it, by Optuna's module of these."""
        if self.kind == _CHOICES:
            return optuna_distributions.CategoricalDistribution(self.labels)
        is_integer, is_log = _RANGES[self.kind]
        kind = "IntDistribution" if is_integer else "FloatDistribution"
        return getattr(optuna_distributions, kind)(*self.limits, log=is_log)


Space = Mapping[str, Dimension]  # all settings that a search varies, by dotted key


def read_space(node: Node) -> Space:
    """Read the ``search`` section of a sweep file.

    A list is choices. A range is a section of one key, the name of its distribution, as in
    ``{log: [5e-4, 5e-3]}``.
    """
    assert isinstance(node.value, dict)
    return {key: _read(key, below) for key, below in node.value.items()}


def _read(key: str, node: Node) -> Dimension:
    keys: Keys = (_SEARCH, *key.split("."))
    match node.value:
        case list() as choices:
            return _choices(keys, node.place, [values(choice) for choice in choices])
        case dict() as entries if len(entries) == 1:
            [(name, bounds)] = entries.items()
            return _range(keys, name, bounds)
    problem = "expected a list of choices, or a range as in {log: [5e-4, 5e-3]}; found "
    raise setting_error(node.place, keys, problem + describe_value(values(node)))


def _choices(keys: Keys, place: Place, choices: list[object]) -> Dimension:
    dimension = Dimension(place, _CHOICES, tuple(choices))
    labels = dimension.labels
    if len(labels) < 2:
        problem = f"expected two choices or more, found {len(labels)}; "
        raise setting_error(place, keys, f"{problem}what is fixed belongs in the base")
    for index, label in enumerate(labels):
        if label in labels[:index]:
            raise setting_error(place, keys, f"{label} is there twice; keep one")
    return dimension


def _range(keys: Keys, name: str, node: Node) -> Dimension:
    if name not in _RANGES:
        raise setting_error(node.place, keys, _describe_unknown(name))
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


def _describe_unknown(name: str) -> str:
    known = _OTHER_NAMES.get(name)
    if known == _CHOICES:
        return f"'{name}' is not needed; write the list alone"
    # It may be a setting: sections are not taken apart here.
    kinds = f"it is one of {', '.join(_RANGES)}"
    rule = f"{kinds}; a setting is one key with dots, as in model.dropout"
    return f"unknown distribution '{name}'; {did_you_mean(name, _RANGES, known) or rule}"
