"""YAML text as a tree of nodes.

PyYAML cuts the text into events; what they mean is decided here, by the core schema of YAML 1.2
(https://yaml.org/spec/1.2.2/#103-core-schema) rather than PyYAML's 1.1: ``1e-4`` is a number,
``no``, ``12:30`` and ``1_000`` are text, ``0123`` is 123. Nothing in a configuration needs tags,
aliases, or octal, hexadecimal and infinite numbers: the first two are refused, the others are text.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator

import yaml
from yaml.reader import ReaderError

from transformer_cli.config.setting_tree import (
    Keys,
    Node,
    Place,
    Scalar,
    Value,
    describe_value,
    setting_error,
    shorten,
)
from transformer_cli.errors import ConfigError

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
_NO_SPACE_CONFUSES = ("mapping values are not allowed here", "could not find expected ':'")

# Control characters, halves of surrogate pairs, and what ends a line in Unicode.
_NOT_TEXT = {"Cc", "Cs", "Zl", "Zp"}
_DEEPEST = 20
_MOST_VALUES = 20_000
"""Keys and values of a document; PyYAML takes a tenth of a millisecond for each, or more."""


def parse_scalar(text: str) -> Scalar:
    """Return the value of a scalar without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def parse(text: str, place_of_line: Callable[[int], Place], keys: Keys = ()) -> Node:
    """Read one YAML document.

    Args:
        text: YAML.
        place_of_line: the place to name for a line of ``text``, counted from 1; 0 is the whole.
        keys: the path of settings above the document.

    Raises:
        ConfigError: the text is not YAML, or uses what a configuration may not.
    """
    return _Parser(text, place_of_line).document(keys)


class _Parser:
    """Turns PyYAML's events into nodes; each method starts after the event it is given."""

    def __init__(self, text: str, place_of_line: Callable[[int], Place]) -> None:
        self.place_of_line = place_of_line
        self.lines = text.splitlines()
        self.events = self._events(text)
        self.count = 0

    def _events(self, text: str) -> Iterator[yaml.Event]:
        """Yield PyYAML's events; raise its errors as ours."""
        line = 1
        try:
            for event in yaml.parse(text, Loader=yaml.SafeLoader):
                line = _line(event)
                yield event
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            if mark and error.problem in _NO_SPACE_CONFUSES:
                self._check_space_after_colon(mark.line + 1)
            where = self.place_of_line(mark.line + 1 if mark else line)
            column = f" (column {mark.column + 1})" if mark else ""
            advice = "; indent with spaces, not tabs" if "'\\t'" in str(error.problem) else ""
            raise setting_error(where, (), f"not YAML: {error.problem}{column}{advice}") from error
        except ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            problem = f"not YAML: the character U+{error.character:04X} is not allowed"
            raise setting_error(self.place_of_line(line), (), problem) from error
        except (ValueError, OverflowError) as error:  # PyYAML does not check what it converts
            problem = "not YAML: an escape that is no character, or a number too large"
            raise setting_error(self.place_of_line(line), (), problem) from error

    def _check_space_after_colon(self, last: int) -> None:
        """Complain about the nearest line, up to ``last``, that lacks a space after its colon."""
        for number in range(min(last, len(self.lines)), 0, -1):
            line = self.lines[number - 1].strip().removeprefix("- ")
            if match := _NO_SPACE.fullmatch(line):
                raise _no_space(self.place_of_line(number), (), match[1])

    def document(self, keys: Keys) -> Node:
        """Return the only document of the stream; a stream without one holds null."""
        root = Node(None, self.place_of_line(0))
        next(self.events)  # the stream's start
        if isinstance(next(self.events), yaml.DocumentStartEvent):
            root.value = self._value(next(self.events), keys)
            next(self.events)  # the document's end
            after = next(self.events)
            if isinstance(after, yaml.DocumentStartEvent):
                raise self._error_at(
                    after, keys, "a second YAML document begins; use one file each"
                )
        return root

    def _value(self, event: yaml.Event, keys: Keys) -> Value:
        self.count += 1
        if self.count > _MOST_VALUES:
            problem = f"more than {_MOST_VALUES:,} keys and values, which no configuration has"
            raise self._error_at(event, (), problem)
        if isinstance(event, yaml.AliasEvent):
            alias = f"the alias *{event.anchor}"
            raise self._error_at(event, keys, f"{alias} is not allowed; write the value out")
        assert isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent)
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            raise self._error_at(event, keys, f"the tag {tag} is not allowed; leave it out")
        if len(keys) > _DEEPEST:
            raise self._error_at(event, keys[:1], "nested too deeply")
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, keys)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(keys)
        return self._read_mapping(keys)

    def _scalar(self, event: yaml.ScalarEvent, keys: Keys) -> Scalar:
        if any(unicodedata.category(character) in _NOT_TEXT for character in event.value):
            found = shorten(ascii(event.value))
            raise self._error_at(event, keys, f"expected a line of text, found {found}")
        is_plain, _ = event.implicit
        return parse_scalar(event.value) if is_plain else event.value

    def _list(self, keys: Keys) -> list[Node]:
        items: list[Node] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            place = self._place(event)
            items.append(Node(self._value(event, (*keys, len(items))), place))
        return items

    def _read_mapping(self, keys: Keys) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self._key(event, keys)
            place = self._place(event)
            if key in entries:
                first = entries[key].place.line
                before = f", first on line {first}" if first else ""
                raise setting_error(place, (*keys, key), f"written twice{before}; keep one")
            written = next(self.events)
            value = self._value(written, (*keys, key))
            if _is_plain(event) and not isinstance(value, dict):
                self._check_not_joined(event, key, keys)
            if _is_plain(written) and isinstance(value, str) and _line(written) > _line(event):
                self._check_not_joined(written, value, (*keys, key))
            entries[key] = Node(value, place)
        return entries

    def _check_not_joined(self, event: yaml.Event, text: str, keys: Keys) -> None:
        if match := _NO_SPACE.fullmatch(text):
            raise _no_space(self._place(event), keys, match[1])

    def _key(self, event: yaml.Event, keys: Keys) -> str:
        if isinstance(event, yaml.CollectionStartEvent):
            raise self._error_at(event, keys, "a list or mapping cannot be a key; keys are text")
        key = self._value(event, keys)
        if not isinstance(key, str):
            assert isinstance(event, yaml.ScalarEvent)
            as_text = f"; write '{event.value}'" if event.value else ""
            raise self._error_at(
                event, keys, f"keys are text, found {describe_value(key)}{as_text}"
            )
        return key

    def _place(self, event: yaml.Event) -> Place:
        return self.place_of_line(_line(event))

    def _error_at(self, event: yaml.Event, keys: Keys, problem: str) -> ConfigError:
        return setting_error(self._place(event), keys, problem)


def _no_space(place: Place, keys: Keys, key: str) -> ConfigError:
    return setting_error(place, keys, f"a space is missing after '{key}'")


def _is_plain(event: yaml.Event) -> bool:
    return isinstance(event, yaml.ScalarEvent) and event.implicit[0]


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0
