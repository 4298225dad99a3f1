"""A config as a tree of values that know where they were written, for error messages.

PyYAML parses the text into nodes with line numbers. This module interprets the nodes with the
core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema) instead of PyYAML's YAML 1.1:
``1e-4`` is a number; ``no``, ``12:30`` and ``1_000`` are text; ``0123`` is 123. No config needs
tags, aliases, or octal, hexadecimal and infinite numbers: tags and aliases are rejected, and such
numbers are text.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import yaml
from yaml.reader import ReaderError

from transformer_cli.base.errors import ConfigError
from transformer_cli.base.locations import hide_credentials

Scalar = str | int | float | bool | None
Keys = tuple[str | int, ...]
BASE = "base"  # the key that names the file a config builds on; it is not a setting itself

_BARE_KEY = re.compile(r"[\w-]+")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}
_INTEGER = re.compile(r"[-+]?[0-9]{1,300}")
# A longer integer matches this pattern, and becomes an infinity that every setting rejects.
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")

_SAME_COLUMN = "keys of one section must start in the same column"
_ADVICE = (
    ("'\\t'", "indent with spaces, not tabs"),
    ("another document", "a second YAML document starts there; use one file for each"),
    ("mapping values are not allowed", f"text with a colon needs quotes; {_SAME_COLUMN}"),
    ("could not find expected ':'", f"put a space after the colon of a key; {_SAME_COLUMN}"),
    ("<block mapping start>", _SAME_COLUMN),
)
"""Pairs of a part of PyYAML's error message, and the advice that we add to such a message."""

# Control characters, halves of surrogate pairs, and Unicode's line separators.
_NOT_TEXT = {"Cc", "Cs", "Zl", "Zp"}
_MAX_DEPTH = 20
_MAX_VALUES = 20_000
"""Maximum keys and values in a document; PyYAML takes a tenth of a millisecond or more for each."""


@dataclass(frozen=True)
class Place:
    """Where something was written: a file or an option, and the line in it (0 if there is none)."""

    source: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


@dataclass(frozen=True)
class Node:
    """A value, where its key or list item was written, and the node that it replaced, if any.

    Nodes are shared, so do not change the lists and mappings in them.
    """

    value: "Value"
    place: Place
    replaced: "Node | None" = None


Value = Scalar | list[Node] | dict[str, Node]


def parse_scalar(text: str) -> Scalar:
    """Return the value of an unquoted YAML scalar: a number, true, false, null or text."""
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else _WORDS.get(text, text)


@lru_cache(maxsize=8)  # evaluate reads a run's settings eight times, which took a tenth of its time
def parse(text: str, source: str, keys: Keys = (), has_lines: bool = True) -> Node:
    """Parse YAML text, the value of the setting at ``keys``; an empty text gives null.

    Each node records ``source``, a file or an option, and with ``has_lines`` also its line.
    """

    def explain(line: int, problem: str) -> ConfigError:
        return setting_error(Place(source, line if has_lines else 0), (), problem)

    try:
        loader = _Loader(text)
        document = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark: Any = error.problem_mark  # never None
        problem = str(error.problem)
        if not isinstance(error, _RefusedError):
            advice = "".join(f"; {text}" for sign, text in _ADVICE if sign in problem)
            problem = f"not YAML: {problem} (column {mark.column + 1}){advice}"
        raise explain(mark.line + 1, problem) from error
    except ReaderError as error:
        problem = f"not YAML: the character U+{error.character:04X} is not allowed"
        raise explain(text.count("\n", 0, error.position) + 1, problem) from error
    except (ValueError, OverflowError) as error:  # PyYAML does not check what it converts
        problem = "not YAML: an escape that is not a character, or a number that is too large"
        raise explain(loader.line + 1, problem) from error
    reader = _Reader(source, has_lines)
    return Node(reader.read(document, keys) if document else None, Place(source))


class _RefusedError(yaml.MarkedYAMLError):
    """Valid YAML that is rejected, because no config needs it, e.g. an alias."""


class _Loader(yaml.SafeLoader):
    """A PyYAML loader that rejects aliases, tags and hostile documents."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 this module decides what words mean
    _count = _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        self._count += 1
        problem = None
        if self._count > _MAX_VALUES:
            problem = f"more than {_MAX_VALUES:,} keys and values; no config needs so many"
        elif self._depth > _MAX_DEPTH:
            problem = "nested too deeply"
        elif isinstance(event, yaml.AliasEvent):
            problem = f"the alias *{event.anchor} is not allowed; write the value out"
        elif event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            problem = f"the tag {tag} is not allowed; leave it out"
        if problem is not None:
            raise _RefusedError(problem=problem, problem_mark=event.start_mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


@dataclass(frozen=True)
class _Reader:
    """A converter from PyYAML's nodes to ``Node`` objects, which know where they were written."""

    source: str
    has_lines: bool

    def read(self, node: Any, keys: Keys) -> Value:
        match node:
            case yaml.MappingNode():
                return self._read_mapping(node, keys)
            case yaml.SequenceNode():
                return [
                    Node(self.read(item, (*keys, number)), self._place(item))
                    for number, item in enumerate(node.value)
                ]
        if any(unicodedata.category(character) in _NOT_TEXT for character in node.value):
            problem = f"expected a line of text, found {shorten(ascii(node.value))}"
            raise setting_error(self._place(node), keys, problem)
        return parse_scalar(node.value) if node.style is None else str(node.value)

    def _read_mapping(self, node: yaml.MappingNode, keys: Keys) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        for written, value in node.value:
            key, place = self.read(written, keys), self._place(written)
            if not isinstance(key, str):
                shown = written.value if isinstance(written, yaml.ScalarNode) else ""
                as_text = f"; write '{shown}'" if shown else ""
                problem = f"a key must be text, found {describe_value(key)}{as_text}"
                raise setting_error(place, keys, problem)
            if key in entries:
                first = entries[key].place.line
                before = f", first on line {first}" if first else ""
                raise setting_error(place, (*keys, key), f"written twice{before}; keep one")
            entries[key] = Node(self.read(value, (*keys, key)), place)
        return entries

    def _place(self, node: yaml.Node) -> Place:
        return Place(self.source, node.start_mark.line + 1 if self.has_lines else 0)


def values(node: Node) -> object:
    """Return only the values of a tree, in the form that the pydantic schema expects.

    Whole numbers become ints, however they were written (``4000.0``, ``1e4``), because the schema
    accepts an int for a float, but not a float for an int.
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


def iter_leaves(
    value: object, keys: Keys = (), into_lists: bool = False
) -> Iterator[tuple[Keys, object]]:
    """Yield the path and value of each setting, and of each empty section, in a tree of values."""
    if into_lists and isinstance(value, list):
        value = dict(enumerate(value))
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from iter_leaves(below, (*keys, key), into_lists)
    else:
        yield keys, value


def find_node(root: Node, keys: Keys) -> Node | None:
    """Return the node of the setting at ``keys``, or None if it was not written."""
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
    """Return where the setting at ``keys``, or the innermost section around it, was written."""
    nodes = (find_node(root, keys[:depth]) for depth in range(len(keys), 0, -1))
    return next((node.place for node in nodes if node), root.place)


def setting_error(place: Place, keys: Keys, problem: str) -> ConfigError:
    """Return an error about the setting at ``keys``, which was written at ``place``."""
    key = f"{shorten(join_keys(keys), 200)}: " if keys else ""
    return ConfigError(f"{place}: {key}{problem}")


def join_keys(keys: Keys) -> str:
    """Return the path of a setting as a dotted key, e.g. ``training.betas[1]``."""
    return "".join(
        f"[{key}]" if isinstance(key, int) else f".{key if _BARE_KEY.fullmatch(key) else repr(key)}"
        for key in keys
    ).removeprefix(".")


def describe_value(value: object) -> str:
    """Return a short description of a value, for error messages."""
    match value:
        case str():
            return f"the text {shorten(hide_credentials(repr(value)))}"
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


def shorten(text: str, limit: int = 60) -> str:
    """Return at most ``limit`` characters of ``text``, with an ellipsis if some are missing."""
    return text if len(text) <= limit else f"{text[:limit]}…"
