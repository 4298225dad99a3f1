"""Writes the settings into docs/configuration.md and the pages of extensions, from the schema.

``python -m docs.settings``
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from transformer_cli.base import registry
from transformer_cli.config.differences import as_yaml
from transformer_cli.config.languages import PATTERN as LANGUAGE_PATTERN
from transformer_cli.extensions.config_tools.json_schema import BASE_MEANS, Schema, inline_schema

PAGE = Path(__file__).with_name("configuration.md")
NAME_PATTERN = r"^[A-Za-z0-9_-]{1,32}$"
"""Of names that extensions' settings take."""

PLACES = {"corpus": "data", "tokenizer": "tokenizer", "schedule": "training.schedule"}
"""Where the kinds of an interface stand."""

_BEGINS = "\n## Settings\n"
_MADE = "\n*Generated from the schema by `python -m docs.settings`.*\n"
_HEAD = """
| key | what it is |
|---|---|
"""
_ADDED = "\nEach extension's page in docs/extensions/ lists the kinds and keys that it adds.\n"
_KINDS = "one of the kinds below"
_CHANGEABLE = """
When a run is resumed, these [may change](#what-may-change-when-a-run-is-resumed): {}.
"""


def renew() -> dict[Path, str]:
    """Return the pages with the settings as they are now."""
    settings = {PAGE: core_settings()}
    for name in registry.installed():
        if added := added_settings(name):
            settings[PAGE.parent / "extensions" / f"{name}.md"] = added
    pages = {path: path.read_text(encoding="utf-8").partition(_BEGINS)[0] for path in settings}
    return {path: page + _BEGINS + _MADE + settings[path] for path, page in pages.items()}


def added_settings(extension: str) -> str:
    """Return the tables of the settings that an extension adds, as Markdown."""
    tables: list[str] = []
    rows: list[tuple[str, Schema, str]] = []
    for interface, place in PLACES.items():
        part = _find(place)
        for entry in registry.entries(interface).values():
            if entry.extension == extension and "settings" in entry.facts:
                tables.append(
                    "\n" + _kind(place, _without_added(place, _of_kind(part, entry.name)))
                )
                if entry.name == "corpus":
                    tables.append("\n" + _sources(part))
    for place, part in inline_schema()["properties"].items():
        for key, owner in _added(place).items():
            if owner == extension:
                kinds = part.get("anyOf", [part])
                kind = next(each for each in kinds if key in each["properties"])
                rows += _rows({"properties": {f"{place}.{key}": kind["properties"][key]}})
    keys = f"\n### Keys that it adds\n\n{_as_table(rows)}" if rows else ""
    return "".join(tables) + keys


def _added(place: str) -> dict[str, str]:
    """Return the keys that extensions add to a section, each with its extension."""
    entries = registry.entries(f"{place} settings").values()
    return {key: entry.extension for entry in entries for key in entry.load().model_fields}


def _find(place: str) -> Schema:
    """Return a section's part of the schema."""
    part = inline_schema()
    for key in place.split("."):
        part = part["properties"][key]
    return part


def _of_kind(part: Schema, kind: str) -> Schema:
    return next(each for each in part["anyOf"] if each["properties"]["kind"]["const"] == kind)


def _without_added(place: str, part: Schema) -> Schema:
    """Return a section's part of the schema without the keys and kinds that extensions add."""
    for interface, owned in PLACES.items():
        if owned == place and "anyOf" in part:
            added = registry.entries(interface)
            kinds = [k for k in part["anyOf"] if k["properties"]["kind"]["const"] not in added]
            return {**part, "anyOf": [_without_added(place, kind) for kind in kinds]}
    kept = {
        key: _without_added(f"{place}.{key}", below)
        for key, below in part.get("properties", {}).items()
        if key not in _added(place)
    }
    return {**part, "properties": kept} if kept else part


def core_settings() -> str:
    """Return the tables of the core's settings, as Markdown."""
    sections = {
        name: _without_added(name, part) for name, part in inline_schema()["properties"].items()
    }
    table, rest = [f"| `base` | {_sentence(_cell(BASE_MEANS))} |"], []
    for name, part in sections.items():
        if "properties" in part or "anyOf" in part:
            table.append(f"| [`{name}`](#{name}) | {_cell(part.get('description', _KINDS))} |")
            rest.append(f"\n## {name}\n\n{_section(name, part)}")
        else:
            text = f"{_type(part)}; default `{as_yaml(part['default'])}`"
            table.append(f"| `{name}` | {text}. {_sentence(part['description'])} |")
    keys = ", ".join(f"`{key}`" for key in dict.fromkeys(_may_change({"properties": sections})))
    return "".join((_HEAD, *(f"{row}\n" for row in table), _ADDED, _CHANGEABLE.format(keys), *rest))


def _may_change(part: Schema, above: str = "") -> Iterator[str]:
    """Yield the settings, and whole sections, that may change when a run is resumed."""
    for kind in part.get("anyOf", [part]):
        for name, below in kind.get("properties", {}).items():
            if below.get("may_change"):
                yield above + name
            else:
                yield from _may_change(below, f"{above}{name}.")


def _section(name: str, part: Schema) -> str:
    """Return a section's text and table, followed by its unions of kinds."""
    if "anyOf" in part:
        return "\n".join(_kind(name, kind) for kind in part["anyOf"])
    text = f"{part['description']}\n\n{_table(part)}"
    for key, below in part["properties"].items():
        if "anyOf" in below:
            text += f"\n### {name}.{key}\n\n{_sentence(below['description'])}"
            if "default" in below:
                default = ", ".join(f"{key}: {as_yaml(v)}" for key, v in below["default"].items())
                text += f" The default is `{{{default}}}`."
            text += f"\n\n{_section(f'{name}.{key}', below)}"
    return text


def _sources(data: Schema) -> str:
    """Return the table of a source, which stands in several keys of the section data."""
    source = _of_kind(data, "corpus")["properties"]["sources"]["items"]
    return f"### Sources\n\n{source['description']}\n\n{_table(source)}"


def _kind(name: str, part: Schema) -> str:
    kind = part["properties"]["kind"]["const"]
    level = "#" * (3 + name.count("."))
    text = f"{level} {name}: kind {kind}\n\n{part['description']}\n"
    settings = {key: below for key, below in part["properties"].items() if key != "kind"}
    return f"{text}\n{_table({**part, 'properties': settings})}" if settings else text


def _table(part: Schema) -> str:
    return _as_table(_rows(part))


def _as_table(settings: Iterable[tuple[str, Schema, str]]) -> str:
    rows = ["| key | value | default | what it is |", "|---|---|---|---|"]
    for key, below, default in settings:
        rows.append(f"| `{key}` | {_type(below)} | {default} | {_cell(below['description'])} |")
    return "".join(f"{row}\n" for row in rows)


def _rows(part: Schema, above: str = "") -> Iterator[tuple[str, Schema, str]]:
    """Yield each setting of a section and its subsections: dotted key, schema and default."""
    for name, below in part["properties"].items():
        key = above + name
        if _is_source(below):
            yield key, below, f"`{as_yaml(below['default'])}`"
        elif "properties" in below:
            for key_below, setting, default in _rows(below, f"{key}."):
                text = f"{below['description']}: {setting['description']}"
                yield key_below, {**setting, "description": text}, default
        elif "anyOf" in below:
            yield key, below, f"`kind: {below['default']['kind']}`"
        elif name in part.get("required", []):
            yield key, below, "required"
        else:
            yield key, below, f"`{as_yaml(below['default'])}`"


def _type(part: Schema) -> str:
    """Return the values that a setting takes, in words, without null if that is the default."""
    if "anyOf" in part:
        return "a section, see below"
    if "const" in part:
        return f"`{part['const']}`"
    is_null = "default" in part and part["default"] is None
    if "enum" in part:
        choices = [choice for choice in part["enum"] if choice is not None or not is_null]
        *others, last = (f"`{as_yaml(choice)}`" for choice in choices)
        return f"{', '.join(others)} or {last}"
    match part["type"]:
        case [*names, "null"] if is_null:
            return _type({**part, "type": names if names[1:] else names[0]})
        case [name, "null"]:
            return f"{_type({**part, 'type': name})}, or `null`"
        case ["string", "array"]:
            return "text or a list"
        case ["boolean", "string"]:
            return "`true`, `false` or text"
        case ["integer", "string"]:
            return "integer or text"
        case "integer" | "number" as name:
            return f"{name}, {bounds}" if (bounds := _bounds(part)) else name
        case "boolean":
            return "`true` or `false`"
        case "array" if isinstance(part["items"], list):
            return f"list of {len(part['items'])}: {_type(part['items'][0])} each"
        case "array" if "length_ratio" in part["items"].get("enum", ()):
            return "list of [filters](#filters)"
        case "array" if "enum" in part["items"]:
            return f"list of {_type(part['items'])}"
        case "array" if "anyOf" in part["items"]:
            group, own = part["items"]["anyOf"]
            return f"list of {_type(group)}, or {_describe_mapping(own)}"
        case "array":
            return f"list of {_describe_mapping(part['items'])}"
        case "object" if _is_source(part):
            return _describe_mapping(part)
        case "object" if "properties" not in part["additionalProperties"]:
            return f"{_type(part['additionalProperties'])}, by name"
        case "object":
            return f"{_describe_mapping(part['additionalProperties'])} by name"
        case _ if part.get("format") == "path":
            return "path"
        case _ if part.get("pattern") == LANGUAGE_PATTERN:
            return "language code"
        case _ if part.get("pattern") == NAME_PATTERN:
            return "letters, digits, `-` and `_`"
        case name:
            return str(name)


def _is_source(part: Schema) -> bool:
    """Return whether this is a ``SourceConfig``, which has a table of its own."""
    return "tmx" in part.get("properties", {})


def _describe_mapping(part: Schema) -> str:
    if _is_source(part):
        return "[source](#sources)"
    # Where a section below it has a row of its own, what need not be given is told there.
    keys = {key: below for key, below in part["properties"].items() if "default" not in below}
    return f"`{{{', '.join(f'{key}: {_type(below)}' for key, below in keys.items())}}}`"


def _bounds(part: Schema) -> str:
    is_whole = part["type"] == "integer"
    bounds: dict[str, Any] = {key: value for key, value in part.items() if "imum" in key}
    minimum, above = bounds.get("minimum"), bounds.get("exclusiveMinimum")
    if is_whole and above is not None:
        minimum, above = above + 1, None
    maximum, below = bounds.get("maximum"), bounds.get("exclusiveMaximum")
    if is_whole and below is not None:
        maximum, below = None, None  # 2^31: the page's head says so
    if minimum is not None and maximum is not None:
        return f"{_number(minimum)} to {_number(maximum)}"
    named = (
        ("at least", minimum),
        ("more than", above),
        ("at most", maximum),
        ("less than", below),
    )
    return " and ".join(f"{words} {_number(bound)}" for words, bound in named if bound is not None)


def _number(bound: float) -> str:
    return f"{int(bound):,}" if float(bound).is_integer() else str(bound)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    for path, page in renew().items():
        path.write_text(page, encoding="utf-8")
