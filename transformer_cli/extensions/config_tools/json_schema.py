"""The JSON Schema of config files, which editors use to complete and check them.

It uses draft 7 without references, which all editors understand. A file with the key ``base`` may
leave out what its base file has, so required settings are only required in files without a base.
"""

import json
from typing import Any

from transformer_cli.config.schema import Config
from transformer_cli.config.setting_tree import BASE

Schema = dict[str, Any]
_MARKS = ("may_change", "may_differ", "option")
BASE_MEANS = (
    "YAML file whose settings this file changes or adds to; the path is relative to this file"
)


def schema_text() -> str:
    """Return the JSON Schema as text, as ``transformer-cli config schema`` prints it."""
    whole = inline_schema()
    base = {"title": BASE, "type": "string", "minLength": 1, "description": BASE_MEANS}
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "transformer-cli configuration",
        "description": whole["description"],
        "type": "object",
        "properties": {BASE: base, **_without_required(whole["properties"])},
        "additionalProperties": False,
        "if": {"not": {"required": [BASE]}},
        "then": _demands(whole),
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def inline_schema() -> Schema:
    """Return the schema of all settings without references, with a section's kinds as ``anyOf``.

    The title of each setting is its dotted key, which editors show on hover. Paths have the format
    "path". Required keys are always required, even in files with a base. There is no key ``base``.
    """
    schema = Config.model_json_schema()
    return _inline(schema, schema["$defs"], "")


def _inline(part: Schema, definitions: dict[str, Schema], title: str) -> Schema:
    """Return one type's schema from pydantic, with all references replaced by their definitions."""
    if "$ref" in part:
        part = {**definitions[part["$ref"].rpartition("/")[2]], **part}
    if "anyOf" in part:  # a setting that may be null; no other one takes more than one type
        part = _or_null(part, definitions)
    left_out = ("$ref", "$defs", "title", "oneOf", "discriminator", "prefixItems")
    made: Schema = {"title": title} if title else {}
    made |= {key: value for key, value in part.items() if key not in left_out}
    if "description" in made:
        made["description"] = " ".join(made["description"].replace("``", "`").split())
    if "oneOf" in part:
        made["anyOf"] = [_inline(kind, definitions, title) for kind in part["oneOf"]]
    if "properties" in part:
        if made.get("default") is not None:
            made.pop("default")  # the defaults of its settings say the same
        made["properties"] = {
            name: _inline(part["properties"][name], definitions, f"{title}.{name}".strip("."))
            for name in sorted(part["properties"], key=lambda name: name != "kind")
        }
        if kind := made["properties"].get("kind"):
            made["title"] += f" of kind {kind['const']}"
            kind["description"] = made["description"]
    if "prefixItems" in part:
        made["items"] = [_inline(item, definitions, f"{title}[]") for item in part["prefixItems"]]
        made["additionalItems"] = False
    for key, name in (("items", "[]"), ("additionalProperties", ".NAME")):
        if isinstance(part.get(key), dict):
            made[key] = _inline(part[key], definitions, f"{title}{name}")
    return made


def _or_null(part: Schema, definitions: dict[str, Schema]) -> Schema:
    choice, null = part["anyOf"]
    assert null == {"type": "null"}
    if "$ref" in choice:
        choice = definitions[choice["$ref"].rpartition("/")[2]]
    rest = {key: value for key, value in part.items() if key != "anyOf"}
    types = choice["type"] if isinstance(choice["type"], list) else [choice["type"]]
    made = {**choice, **rest, "type": [*types, "null"]}
    if "const" in choice:
        made["enum"] = [made.pop("const"), None]
    elif "enum" in choice:
        made["enum"] = [*choice["enum"], None]
    return made


def _without_required(part: Any) -> Any:
    """Return a copy of a schema that requires keys only in list items, which no base can supply."""
    if isinstance(part, list):
        return [_without_required(below) for below in part]
    if not isinstance(part, dict):
        return part
    return {
        key: below if key == "items" else _without_required(below)
        for key, below in part.items()
        if key not in ("required", *_MARKS)
    }


def _demands(part: Schema) -> Schema:
    """Return a schema that has only the requirements that ``_without_required`` drops."""
    made: Schema = {key: part[key] for key in ("const", "required") if key in part}
    demands = {name: _demands(below) for name, below in part.get("properties", {}).items()}
    made["properties"] = {name: demand for name, demand in demands.items() if demand}
    made["anyOf"] = [_demands(kind) for kind in part.get("anyOf", [])]
    if isinstance(part.get("additionalProperties"), dict):
        made["additionalProperties"] = _demands(part["additionalProperties"])
    return {key: demand for key, demand in made.items() if demand}
