"""Turn a parsed config into a ``Config``, and pydantic's errors into our messages."""

import re
from collections.abc import Iterator, Sequence
from operator import itemgetter
from types import NoneType
from typing import Any, TypeGuard, TypeVar, get_args

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from transformer_cli.base import registry
from transformer_cli.base.errors import ConfigError, find_similar
from transformer_cli.config import setting_tree as tree
from transformer_cli.config.schema import Config
from transformer_cli.config.sections import Kinds, Section, extend_fully, kind_of

S = TypeVar("S", bound=Section)

_MAX_KEYS_LISTED = 9
_MAX_OTHER_ERRORS = 20

# What the schema expects, by the type of the error (pydantic's or ours). Only language codes have
# patterns.
_EXPECTED = {
    "int_type": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "string_too_short": "text that is not empty",
    "path_type": "a path",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "literal_error": "{expected}",
    "expected": "{what}",
    "too_long": "a list of {max_length}",
    "too_short": "a list of at least {min_length}",
    **dict.fromkeys(("list_type", "tuple_type"), "a list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "keys and values"),
    **dict.fromkeys(
        ("string_too_long", "string_pattern_mismatch"),
        "a language code such as 'de', 'pt-BR' or 'zh_TW'",
    ),
}
# The messages of the schema's own validators: a key, and what is wrong with it.
_VALIDATORS_MESSAGE = re.compile(r"([a-z_[].*?): (.*)", re.DOTALL)


def validate_as(schema: type[S], root: tree.Node) -> S:
    """Check the values of a mapping, such as a config file; return an instance of ``schema``.

    Raise ConfigError with the first error in line order; missing keys come last.
    """
    try:
        return schema.model_validate(tree.values(root))
    except ValidationError as error:
        errors = error.errors(include_url=False)
        explained = [(each, *_explain(schema, each, root)) for each in errors]
        hints = {(*keys[:-1], text.rpartition("did you mean ")[2]) for _, keys, text in explained}
        problems = []
        for details, keys, text in explained:
            if details["type"] == "missing" and (*keys[:-1], f"'{keys[-1]}'?") in hints:
                continue  # it is misspelt, and has its own error
            place = tree.find_place(root, keys)
            order = (text.startswith("missing"), place.line)
            problems.append((order, str(tree.setting_error(place, keys, text))))
        first, *others = (text for _, text in sorted(problems, key=itemgetter(0)))
        if len(others) > _MAX_OTHER_ERRORS:
            others[_MAX_OTHER_ERRORS:] = [f"and {len(others) - _MAX_OTHER_ERRORS:,} more errors"]
        raise ConfigError(first, others) from error


def _explain(schema: type[Section], error: ErrorDetails, root: tree.Node) -> tuple[tree.Keys, str]:
    """Return the path of the setting that an error of pydantic is about, and our message."""
    keys = error["loc"]
    context, found = error.get("ctx", {}), tree.describe_value(error["input"])
    match error["type"]:
        case "extra_forbidden":
            above = _find_type(schema, keys[:-1], root)
            return keys, _explain_unknown(above, keys, is_config=schema is Config)
        case "missing":
            return keys, _explain_missing(_find_type(schema, keys[:-1], root), str(keys[-1]))
        case "value_error":
            message = _VALIDATORS_MESSAGE.fullmatch(str(context["error"]))
            assert message, f"the schema's validators begin their messages with a key: {error}"
            below = re.findall(r"\[\d+\]|[^.[\]]+", message[1])
            steps = (int(key[1:-1]) if key.startswith("[") else key for key in below)
            return (*keys, *steps), message[2]
        case "refused":
            return keys, error["msg"]
        case name if name in _EXPECTED:
            wanted = _EXPECTED[name].format(**context)
            is_key = wanted == "keys and values" and re.match(r"\w+:\S", str(error["input"]))
            advice = "; put a space after the colon of a key" if is_key else ""
            return keys, f"expected {wanted}, found {found}{advice}"
        case _:
            return keys, f"{error['msg']}, found {found}"


def _explain_unknown(section: type[Section], keys: tree.Keys, is_config: bool) -> str:
    name = str(keys[-1])
    allowed = list(extend_fully(section).model_fields)
    if section is Config:
        allowed.insert(0, tree.BASE)
    place = tree.join_keys(keys[:-1])
    settings = set(list_settings()) if is_config else set()
    same = {key for key in settings if key.endswith(f".{name}")}
    # Keys below data depend on the kind, so a key of another kind is no suggestion.
    known = [key for key in same if not (place.startswith("data") and key.startswith("data."))]
    text = f"unknown key for kind '{kind_of(section)}'" if "kind" in allowed else "unknown key"
    elsewhere = known[0] if len(known) == 1 and known[0] != f"{place}.{name}" else None
    if meant := elsewhere or find_similar(name, allowed):
        return f"{text}; did you mean '{meant}'?"
    if len(allowed) <= _MAX_KEYS_LISTED:
        text += f"; the keys are {', '.join(allowed)}"
    is_elsewhere = any(name in key.split(".") for key in settings)  # e.g. a section
    if section.place is not None and not is_elsewhere:
        text += f"; it may need an extension; {registry.describe_installed()}"
    return text


def list_settings(section: type[Section] = Config, above: str = "") -> Iterator[str]:
    """Yield the dotted key of each setting, once for each ``kind`` of section that has it."""
    for name, field in extend_fully(section).model_fields.items():
        if sections := _sections_of(field):
            for each in sections:
                yield from list_settings(each, f"{above}{name}.")
        else:
            yield above + name


def _explain_missing(section: Any, key: str) -> str:
    if not _is_section(section):  # an item of a list
        return "missing"
    field = section.model_fields[key]
    if kinds := _kinds_of(field):
        return f"missing; give it a kind: {kinds}"
    return f"missing ({field.description})"


def _find_type(schema: type[Section], keys: tree.Keys, root: tree.Node) -> Any:
    """Return the type of the setting at ``keys``, or its ``Kinds`` if its ``kind`` is unknown."""
    wanted: Any = schema
    for depth, key in enumerate(keys, 1):
        if not _is_section(wanted):  # a mapping's values or a list's items
            wanted = get_args(wanted)[-1]
        elif field := extend_fully(wanted).model_fields.get(str(key)):
            wanted = _type_of(field, tree.find_node(root, (*keys[:depth], "kind")))
        else:
            return None
    return wanted


def _type_of(field: FieldInfo, kind: tree.Node | None) -> Any:
    if kinds := _kinds_of(field):
        return (kinds.find(kind.value) if kind and isinstance(kind.value, str) else None) or kinds
    sections = _sections_of(field)
    return sections[0] if sections else field.annotation


def _kinds_of(field: FieldInfo) -> Kinds | None:
    return next((each for each in field.metadata if isinstance(each, Kinds)), None)


def _sections_of(field: FieldInfo) -> list[type[Section]]:
    """Return a section's classes, one for each kind or just one; [] for other settings."""
    if kinds := _kinds_of(field):
        return [section for name in kinds.names() if (section := kinds.find(name))]
    choices = get_args(field.annotation)
    members: Sequence[Any] = choices if NoneType in choices else [field.annotation]
    return [member for member in members if _is_section(member)]


def _is_section(wanted: Any) -> TypeGuard[type[Section]]:
    return isinstance(wanted, type) and issubclass(wanted, Section)
