"""A configuration as a tree of values that know where they were written, and how errors say so.

PyYAML parses the text into events, whose marks have the lines; what they mean is decided here,
by the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema) rather than PyYAML's
1.1: ``1e-4`` is a number, ``no``, ``12:30`` and ``1_000`` are text, ``0123`` is 123. Nothing in a
configuration needs tags, aliases, or octal, hexadecimal and infinite numbers: the first two are
refused, the others are text.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import yaml
from yaml.reader import ReaderError

from transformer_cli.base.errors import ConfigError
from transformer_cli.base.locations import hide_credentials

Scalar = str | int | float | bool | None
Keys = tuple[str | int, ...]
BASE = "base"  # the key that names the file whose settings a file changes; it is no setting itself

_BARE_KEY = re.compile(r"[\w-]+")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}
_INTEGER = re.compile(r"[-+]?[0-9]{1,300}")
# An integer of more digits falls to this one, and becomes an infinity that every setting refuses.
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")

# A key whose value follows its colon at once, which YAML reads as one word; no web address or path.
_NO_SPACE = re.compile(r"([A-Za-z_]\w*:)[^\s:/\\].*")
_MISSING_SPACE = "a space is missing after '{}'"
_NO_SPACE_CONFUSES = ("mapping values are not allowed here", "could not find expected ':'")

# Control characters, halves of surrogate pairs, and what ends a line in Unicode.
_NOT_TEXT = {"Cc", "Cs", "Zl", "Zp"}
_MAX_DEPTH = 20
_MAX_VALUES = 20_000
"""Keys and values of a document; PyYAML takes a tenth of a millisecond for each, or more."""


@dataclass(frozen=True)
class Place:
    """Where something was written; line 0 means that there is no line to name."""

    source: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


@dataclass(frozen=True)
class Node:
    """A value, the place of its key (of itself, in a list), and the node that it replaced.

    Nodes are shared: nobody changes the lists and mappings in them.
    """

    value: "Value"
    place: Place
    replaced: "Node | None" = None


Value = Scalar | list[Node] | dict[str, Node]


def parse_scalar(text: str) -> Scalar:
    """Return the value of a scalar without quotes."""
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else _WORDS.get(text, text)


@lru_cache(maxsize=8)  # evaluate reads a run's settings eight times, a tenth of its time
def parse(text: str, source: str, keys: Keys = (), has_lines: bool = True) -> Node:
    """Read one YAML document, below the path ``keys``; a stream without one holds null.

    Places are lines of ``source``; without ``has_lines``, the whole of it.
    """
    line = 0
    try:
        reader = _Reader(text, source, has_lines)
        try:
            return Node(reader.read_document(keys), Place(source))
        finally:
            line = reader.loader.line + 1
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else line
        column = f" (column {mark.column + 1})" if mark else ""
        advice = ""
        if "'\\t'" in str(error.problem):
            advice = "; indent with spaces, not tabs"
        elif error.problem in _NO_SPACE_CONFUSES or "<block mapping start>" in str(error.problem):
            advice = "; keys of one section begin in the same column"
        problem = f"not YAML: {error.problem}{column}{advice}"
        if error.problem in _NO_SPACE_CONFUSES:
            # The last line that lacks a space after its colon is the likeliest to be meant.
            for number, written in enumerate(text.splitlines()[:line], start=1):
                if match := _NO_SPACE.fullmatch(written.strip().removeprefix("- ")):
                    line, problem = number, _MISSING_SPACE.format(shorten(match[1]))
        cause: Exception = error
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"not YAML: the character U+{error.character:04X} is not allowed"
        cause = error
    except (ValueError, OverflowError) as error:  # PyYAML does not check what it converts
        problem = "not YAML: an escape that is no character, or a number too large"
        cause = error
    raise setting_error(Place(source, line if has_lines else 0), (), problem) from cause


class _Reader:
    """Builds the tree of a document, without aliases and tags, from PyYAML's events."""

    def __init__(self, text: str, source: str, has_lines: bool) -> None:
        self.loader = yaml.SafeLoader(text)
        self._source = source
        self._has_lines = has_lines
        self._count = 0

    def read_document(self, keys: Keys) -> Value:
        get_event: Callable[[], Any] = self.loader.get_event
        get_event()  # of the stream
        if isinstance(get_event(), yaml.StreamEndEvent):
            return None
        value = self._value(self._read(keys), keys)
        get_event()  # of the document
        if not isinstance(event := get_event(), yaml.StreamEndEvent):
            problem = "a second YAML document begins; use one file each"
            raise self._error_at(event, keys, problem)
        return value

    def _read(self, keys: Keys) -> Any:
        """Return the next event, which may belong to the value at ``keys``."""
        event = self.loader.get_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.CollectionEndEvent):
            return event
        self._count += 1
        if self._count > _MAX_VALUES:
            problem = f"more than {_MAX_VALUES:,} keys and values, which no configuration has"
            raise self._error_at(event, (), problem)
        if isinstance(event, yaml.AliasEvent):
            problem = f"the alias *{event.anchor} is not allowed; write the value out"
            raise self._error_at(event, keys, problem)
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            raise self._error_at(event, keys, f"the tag {tag} is not allowed; leave it out")
        if len(keys) > _MAX_DEPTH:
            raise self._error_at(event, keys[:1], "nested too deeply")
        return event

    def _value(self, event: Any, keys: Keys) -> Value:
        """Return the value that begins with an event."""
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, keys)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(keys)
        items: list[Node] = []
        while True:
            event = self._read(below := (*keys, len(items)))
            if isinstance(event, yaml.SequenceEndEvent):
                return items
            items.append(Node(self._value(event, below), self._place(event)))

    def _mapping(self, keys: Keys) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        while not isinstance(written := self._read(keys), yaml.MappingEndEvent):
            key, place = self._key(written, keys), self._place(written)
            if key in entries:
                first = entries[key].place.line
                before = f", first on line {first}" if first else ""
                raise setting_error(place, (*keys, key), f"written twice{before}; keep one")
            event = self._read(below := (*keys, key))
            # Here, as PyYAML would complain of the next line, which it takes for the same value.
            if event.start_mark.line > written.start_mark.line:
                self._check_not_joined(event, below)
            entries[key] = Node(self._value(event, below), place)
            if not isinstance(event, yaml.MappingStartEvent):
                self._check_not_joined(written, keys)
        return entries

    def _key(self, event: Any, keys: Keys) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            problem = "a list or mapping cannot be a key; keys are text"
            raise self._error_at(event, keys, problem)
        key = self._scalar(event, keys)
        if not isinstance(key, str):
            as_text = f"; write '{event.value}'" if event.value else ""
            problem = f"keys are text, found {describe_value(key)}{as_text}"
            raise self._error_at(event, keys, problem)
        return key

    def _scalar(self, event: yaml.ScalarEvent, keys: Keys) -> Scalar:
        if any(unicodedata.category(character) in _NOT_TEXT for character in event.value):
            problem = f"expected a line of text, found {shorten(ascii(event.value))}"
            raise self._error_at(event, keys, problem)
        return parse_scalar(event.value) if event.style is None else event.value

    def _check_not_joined(self, event: Any, keys: Keys) -> None:
        """Complain about text without quotes that is a key and its value."""
        is_plain = isinstance(event, yaml.ScalarEvent) and event.style is None
        if is_plain and (match := _NO_SPACE.fullmatch(event.value)):
            raise self._error_at(event, keys, _MISSING_SPACE.format(shorten(match[1])))

    def _place(self, event: Any) -> Place:
        return Place(self._source, event.start_mark.line + 1 if self._has_lines else 0)

    def _error_at(self, event: Any, keys: Keys, problem: str) -> ConfigError:
        return setting_error(self._place(event), keys, problem)


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


def iter_leaves(
    value: object, keys: Keys = (), into_lists: bool = False
) -> Iterator[tuple[Keys, object]]:
    """Yield the settings of a tree's values, each with its path; an empty section is one too."""
    if into_lists and isinstance(value, list):
        value = dict(enumerate(value))
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from iter_leaves(below, (*keys, key), into_lists)
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
    nodes = (find_node(root, keys[:depth]) for depth in range(len(keys), 0, -1))
    return next((node.place for node in nodes if node), root.place)


def setting_error(place: Place, keys: Keys, problem: str) -> ConfigError:
    """Return the error about the setting at ``keys``, written at ``place``."""
    key = f"{shorten(join_keys(keys), 200)}: " if keys else ""
    return ConfigError(f"{place}: {key}{problem}")


def join_keys(keys: Keys) -> str:
    """Return the dotted key: ``training.betas[1]``."""
    return "".join(
        f"[{key}]" if isinstance(key, int) else f".{key if _BARE_KEY.fullmatch(key) else repr(key)}"
        for key in keys
    ).removeprefix(".")


def describe_value(value: object) -> str:
    """Return a value as an error message names it, in a few words."""
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
