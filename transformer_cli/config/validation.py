"""A tree of values as a Config, and pydantic's errors as one line that names key and place."""

import os.path
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from transformer_cli.config.data_schema import TAG_PATTERN, SourceConfig, describe_source
from transformer_cli.config.foreign import our_key, our_kind
from transformer_cli.config.schema import Config
from transformer_cli.config.sections import Section
from transformer_cli.config.setting_tree import (
    BASE,
    Keys,
    Node,
    describe_value,
    find_node,
    find_place,
    join_keys,
    setting_error,
    values,
)
from transformer_cli.errors import ConfigError, did_you_mean

S = TypeVar("S", bound=Section)

_MAX_KEYS_LISTED = 9
_MAX_OTHER_ERRORS = 20

# What the schema expects, by pydantic's error type. Language codes and tags have string limits.
_LANGUAGE = "a language code such as 'de' or 'pt-BR'"
_SECTION = "keys and values"
_EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "string_too_short": _LANGUAGE,
    "string_too_long": _LANGUAGE,
    "string_pattern_mismatch": _LANGUAGE,
    "path_type": "a path",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "literal_error": "{expected}",
    "list_type": "a list",
    "tuple_type": "a list",
    "too_long": "a list of {max_length}",
    "too_short": "a list of at least {min_length}",
    "dict_type": _SECTION,
    "model_type": _SECTION,
    "model_attributes_type": _SECTION,
}
_VALIDATORS_MESSAGE = re.compile(r"([a-z_].*?): (.*)", re.DOTALL)


@dataclass(frozen=True)
class _Problem:
    keys: Keys
    text: str
    is_missing: bool = False


def validate_as(schema: type[S], root: Node) -> S:
    """Return a whole file, a mapping, as a value of ``schema``, checked against it.

    Raises:
        ConfigError: it breaks the schema; the message is the first error in line order, missing
            keys last, and ``others`` has the rest.
    """
    try:
        return schema.model_validate(values(root))
    except ValidationError as error:
        problems = [_problem(schema, details) for details in error.errors(include_url=False)]
        raise _config_error(problems, root) from error


def _config_error(problems: list[_Problem], root: Node) -> ConfigError:
    problems.sort(key=lambda it: (it.is_missing, find_place(root, it.keys).line))
    first, *others = (
        str(setting_error(find_place(root, problem.keys), problem.keys, problem.text))
        for problem in problems
    )
    if len(others) > _MAX_OTHER_ERRORS:
        others[_MAX_OTHER_ERRORS:] = [f"and {len(others) - _MAX_OTHER_ERRORS:,} more errors"]
    return ConfigError(first, others)


def _problem(schema: type[Section], error: ErrorDetails) -> _Problem:
    keys, wanted = _resolve_location(schema, error["loc"])
    found = error["input"]
    context = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            return _Problem(keys, _unknown_key(schema, error["loc"]))
        case "missing":
            return _Problem(keys, _explain_missing(schema, error["loc"]), is_missing=True)
        case "union_tag_not_found":
            text = f"missing; it is {_join_with_or(_kinds(wanted))}"
            return _Problem((*keys, "kind"), text, is_missing=True)
        case "union_tag_invalid":
            kinds, kind = _kinds(wanted), found["kind"]
            text = f"expected {_join_with_or(kinds)}, found {describe_value(kind)}"
            hint = did_you_mean(kind, kinds, our_kind(str(kind), kinds))
            return _Problem((*keys, "kind"), f"{text}; {hint}" if hint else text)
        case "value_error":
            return _problem_of_validator(keys, str(context["error"]))
        case "string_pattern_mismatch" if context["pattern"] == TAG_PATTERN:
            text = "at most 32 letters, digits, - and _"
            return _Problem(keys, f"expected {text}, found {describe_value(found)}")
        case name if name in _EXPECTED:
            text = f"expected {_EXPECTED[name].format(**context)}, found {describe_value(found)}"
            if wanted is SourceConfig and isinstance(found, str):
                text += f"; write {describe_source(found)}"
            return _Problem(keys, text)
        case _:
            return _Problem(keys, f"{error['msg']}, found {describe_value(found)}")


def _unknown_key(schema: type[Section], loc: Keys) -> str:
    _, section = _resolve_location(schema, loc[:-1])
    allowed = [*section.model_fields]
    if section is Config:
        allowed.insert(0, BASE)
    text = "unknown key"
    if "kind" in allowed:
        text += f" for kind {_join_with_or(get_args(section.model_fields['kind'].annotation))}"
    if hint := did_you_mean(loc[-1], allowed, _key_in_other_tools(schema, loc, allowed)):
        return f"{text}; {hint}"
    return (
        f"{text}; the keys are {', '.join(allowed)}" if len(allowed) <= _MAX_KEYS_LISTED else text
    )


_TYPO_SIMILARITY = 0.8
"""Similarity, from 0 to 1, from which a key counts as a typo of another."""


def _key_in_other_tools(schema: type[Section], loc: Keys, allowed: Collection[str]) -> str | None:
    """Return our key if ``loc`` ends in another tool's name: bare in its section, else in full."""
    for name, ours in (("type", "kind"), ("mo", "po")):
        if loc[-1] == name and ours in allowed:
            return ours
    key = our_key(str(loc[-1])) if schema is Config else None
    section, _ = _resolve_location(schema, loc[:-1])
    above, _, name = (key or "").rpartition(".")
    if above == join_keys(section):
        return name if name in allowed else None
    # A typo of a key of this section is likelier than a key of another section.
    return None if get_close_matches(str(loc[-1]), allowed, cutoff=_TYPO_SIMILARITY) else key


def _explain_missing(schema: type[Section], loc: Keys) -> str:
    _, section = _resolve_location(schema, loc[:-1])
    if not _is_section(section):  # an item of a list
        return "missing"
    field = section.model_fields[loc[-1]]
    if kinds := _kinds(field.annotation):
        return f"missing; give it a kind: {_join_with_or(kinds)}"
    return f"missing ({field.description})"


def _problem_of_validator(section: Keys, message: str) -> _Problem:
    """Return the problem in a message 'key: problem' of one of the schema's own validators."""
    match = _VALIDATORS_MESSAGE.fullmatch(message)
    assert match, f"the schema's validators begin their messages with a key: {message}"
    keys = (
        int(key[1:-1]) if key.startswith("[") else key
        for key in re.findall(r"\[\d+\]|[^.[\]]+", match[1])
    )
    return _Problem((*section, *keys), match[2])


def _join_with_or(choices: Collection[str]) -> str:
    *others, last = (f"'{choice}'" for choice in choices)
    return f"{', '.join(others)} or {last}" if others else last


def check_paths(config: Config, root: Node) -> None:
    """Make sure that no path was meant to start from the directory of the file it is written in.

    ``base`` starts there, and all others where the command is run.
    """
    for keys, path in _paths(config.model_dump()):
        node = find_node(root, keys)
        if node is None or not node.place.line or not isinstance(node.value, str):
            continue
        beside = Path(node.place.source).parent / node.value
        # Not Path.exists, which raises where a name is too long.
        if not os.path.exists(path) and os.path.exists(beside):  # noqa: PTH110
            raise setting_error(
                node.place,
                keys,
                f"there is no {path}, as paths start from the directory that the command is run "
                f"in; did you mean {beside}?",
            )


def _paths(value: object, keys: Keys = ()) -> Iterator[tuple[Keys, Path]]:
    match value:
        case Path():
            yield keys, value
        case dict():
            for key, below in value.items():
                yield from _paths(below, (*keys, key))
        case list():
            for index, below in enumerate(value):
                yield from _paths(below, (*keys, index))


# --- the schema's types ---------------------------------------------------------------------------


def _resolve_location(schema: type[Section], loc: Keys) -> tuple[Keys, Any]:
    """Return the path of settings that pydantic's ``loc`` means, and the schema's type there.

    The two paths differ below a union of sections: pydantic names the chosen kind as well.
    """
    keys: list[str | int] = []
    wanted: Any = schema
    for part in loc:
        kinds = _kinds(wanted)
        if isinstance(part, str) and part in kinds:
            wanted = kinds[part]
        else:
            keys.append(part)
            wanted = _below(wanted, part)
    return tuple(keys), wanted


def _below(wanted: Any, key: str | int) -> Any:
    """Return the type of a section's field (or None), a mapping's values or a list's items."""
    if _is_section(wanted):
        field = wanted.model_fields.get(key)
        return _without_none(field.annotation) if field else None
    return get_args(wanted)[-1]


def _without_none(annotation: Any) -> Any:
    """Return the type of a section that may be null; others as they are."""
    sections = [member for member in get_args(annotation) if _is_section(member)]
    return sections[0] if len(sections) == 1 and NoneType in get_args(annotation) else annotation


def _kinds(wanted: Any) -> dict[str, type[Section]]:
    """Return the sections of a union by their kind; empty for other types."""
    members = get_args(wanted)
    if not members or not all(
        _is_section(member) and "kind" in member.model_fields for member in members
    ):
        return {}
    return {get_args(member.model_fields["kind"].annotation)[0]: member for member in members}


def _is_section(wanted: Any) -> bool:
    return isinstance(wanted, type) and issubclass(wanted, Section)
