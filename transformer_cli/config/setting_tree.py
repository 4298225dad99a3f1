"""A configuration as a tree of values that know where they were written, and how errors say so."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from transformer_cli.errors import ConfigError

Scalar = str | int | float | bool | None
Keys = tuple[str | int, ...]

_BARE_KEY = re.compile(r"[\w-]+")


@dataclass(frozen=True)
class Place:
    """Where something was written; line 0 means that there is no line to name."""

    source: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


@dataclass
class Node:
    """A value, the place of its key (of itself, in a list), and the node that it replaced."""

    value: "Value"
    place: Place
    replaced: "Node | None" = None


Value = Scalar | list[Node] | dict[str, Node]


def values(node: Node) -> object:
    """Return a tree's values without their places, as the schema takes them.

    Whole numbers are ints however they were written (``4000.0``, ``1e4``): the schema takes an int
    for a float, and not the other way round.
    """
    match node.value:
        case dict() as entries:
            return {key: values(below) for key, below in entries.items()}
        case list() as items:
            return [values(item) for item in items]
        case float() as number if number.is_integer():
            return int(number)
        case scalar:
            return scalar


def iter_leaves(value: object, keys: Keys = ()) -> Iterator[tuple[Keys, object]]:
    """Yield the settings of a tree's values, each with its path; an empty section is one too."""
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from iter_leaves(below, (*keys, key))
    else:
        yield keys, value


def find_node(root: Node, keys: Keys) -> Node | None:
    """Return the setting at ``keys``, if it was written."""
    node: Node | None = root
    for key in keys:
        match node, key:
            case Node(value=dict() as entries), str():
                node = entries.get(key)
            case Node(value=list() as items), int() if key < len(items):
                node = items[key]
            case _:
                return None
    return node


def find_place(root: Node, keys: Keys) -> Place:
    """Return the place of the setting at ``keys``, or of the innermost section around it."""
    node = root
    for key in keys:
        match node.value, key:
            case dict() as entries, str() if key in entries:
                node = entries[key]
            case list() as items, int() if key < len(items):
                node = items[key]
            case _:
                break
    return node.place


def setting_error(place: Place, keys: Keys, problem: str) -> ConfigError:
    """Return the error about the setting at ``keys``, written at ``place``."""
    return ConfigError(f"{place}: {join_keys(keys)}: {problem}" if keys else f"{place}: {problem}")


def join_keys(keys: Keys) -> str:
    """Return the dotted key: ``training.betas[1]``."""
    return "".join(map(_step, keys)).removeprefix(".")


def _step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if _BARE_KEY.fullmatch(key) else f".{key!r}"


def describe_value(value: object) -> str:
    """Return a value as an error message names it, in a few words."""
    match value:
        case str():
            return f"the text {shorten(repr(value))}"
        case None:
            return "nothing (null)"
        case bool():
            return json.dumps(value)
        case list():
            return f"a list of {len(value)}"
        case dict():
            return "keys and values"
        case _:
            return shorten(str(value))


def shorten(text: str, most: int = 60) -> str:
    """Return at most ``most`` characters of ``text``, with an ellipsis if some are missing."""
    return text if len(text) <= most else f"{text[:most]}…"
