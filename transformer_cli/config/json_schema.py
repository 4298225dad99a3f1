"""The schema as JSON Schema, by which editors complete and check configuration files.

Draft 7 with nothing referred to, since that is what all editors understand. A file that builds on
another may leave out what that one says, so what must be there is asked of files without a base.
"""

import json
from typing import Any

from transformer_cli.config.base_files import BASE, BASE_MEANS
from transformer_cli.config.schema import Config

Schema = dict[str, Any]


def schema_text() -> str:
    """Return what ``transformer-cli config schema`` prints."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def json_schema() -> Schema:
    """Return the JSON Schema of a configuration file."""
    whole = inline_schema()
    properties = {BASE: {"type": "string", "minLength": 1, "description": BASE_MEANS}}
    properties |= _shape(whole)["properties"]
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "transformer-cli configuration",
        "description": whole["description"],
        "type": "object",
        "properties": _add_titles(properties),
        "additionalProperties": False,
        "if": {"not": {"required": [BASE]}},
        "then": _demands(whole),
    }


def inline_schema() -> Schema:
    """Return every setting in one tree: unions of kinds as ``anyOf``, ``required`` everywhere.

    Paths have the format "path", and there is no ``base``.
    """
    schema = Config.model_json_schema()
    return _inline(schema, schema["$defs"])


def _inline(part: Schema, definitions: dict[str, Schema]) -> Schema:
    """Return pydantic's schema of one type without references and generated titles."""
    if "$ref" in part:
        part = {**definitions[part["$ref"].rpartition("/")[2]], **part}
    if "anyOf" in part:  # what may be null; no other setting takes more than one type
        part = _or_null(part, definitions)
    left_out = ("$ref", "$defs", "title", "oneOf", "discriminator", "prefixItems")
    made = {key: value for key, value in part.items() if key not in left_out}
    if "description" in made:
        made["description"] = " ".join(made["description"].replace("``", "`").split())
    if "oneOf" in part:
        made["anyOf"] = [_inline(kind, definitions) for kind in part["oneOf"]]
    if "properties" in part:
        if made.get("default") is not None:
            made.pop("default")  # those of its settings say the same
        names = sorted(part["properties"], key=lambda name: name != "kind")
        made["properties"] = {
            name: _inline(part["properties"][name], definitions) for name in names
        }
    if "prefixItems" in part:
        made["items"] = [_inline(item, definitions) for item in part["prefixItems"]]
        made["additionalItems"] = False
    for key in ("items", "additionalProperties"):
        if isinstance(part.get(key), dict):
            made[key] = _inline(part[key], definitions)
    if kind := made.get("properties", {}).get("kind"):
        kind["description"] = made["description"]
    return made


def _or_null(part: Schema, definitions: dict[str, Schema]) -> Schema:
    choice, null = part["anyOf"]
    assert null == {"type": "null"}
    if "$ref" in choice:
        choice = definitions[choice["$ref"].rpartition("/")[2]]
    rest = {key: value for key, value in part.items() if key != "anyOf"}
    types = choice["type"] if isinstance(choice["type"], list) else [choice["type"]]
    made = {**choice, **rest, "type": [*types, "null"]}
    if "enum" in choice:
        made["enum"] = [*choice["enum"], None]
    return made


def _shape(part: Schema) -> Schema:
    """Return the schema without ``required``, except in lists, which have no base."""
    made = {key: value for key, value in part.items() if key not in ("required", "format")}
    if "properties" in part:
        made["properties"] = {name: _shape(below) for name, below in part["properties"].items()}
    if "anyOf" in part:
        made["anyOf"] = [_shape(kind) for kind in part["anyOf"]]
    if isinstance(part.get("additionalProperties"), dict):
        made["additionalProperties"] = _shape(part["additionalProperties"])
    return made


def _demands(part: Schema) -> Schema:
    """Return what is required: the other half of ``_shape``."""
    made: Schema = {}
    if "required" in part:
        made["required"] = part["required"]
    demands = {name: _demands(below) for name, below in part.get("properties", {}).items()}
    if demands := {name: demand for name, demand in demands.items() if demand}:
        made["properties"] = demands
    if isinstance(part.get("additionalProperties"), dict):
        made["additionalProperties"] = _demands(part["additionalProperties"])
    if "anyOf" in part:
        made["anyOf"] = [_demands_of_kind(kind) for kind in part["anyOf"]]
    return made


def _demands_of_kind(part: Schema) -> Schema:
    demands = _demands(part)
    kind = {"const": part["properties"]["kind"]["const"]}
    return {**demands, "properties": {"kind": kind, **demands.get("properties", {})}}


def _add_titles(properties: dict[str, Schema], above: str = "") -> dict[str, Schema]:
    """Add each setting's dotted key as its title, which editors show on hover."""
    return {name: _with_title(part, above + name) for name, part in properties.items()}


def _with_title(part: Schema, title: str) -> Schema:
    made = {"title": title, **part}
    if "anyOf" in part:
        kinds = [kind["properties"]["kind"]["const"] for kind in part["anyOf"]]
        made["anyOf"] = [
            {
                **kind,
                "title": f"{title} of kind {name}",
                "properties": _add_titles(kind["properties"], f"{title}."),
            }
            for name, kind in zip(kinds, part["anyOf"], strict=True)
        ]
    if "properties" in part:
        made["properties"] = _add_titles(part["properties"], f"{title}.")
    return made
