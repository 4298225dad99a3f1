"""All settings, made from the schema: JSON Schema for editors, and the page docs/configuration.md.

``python -m transformer_cli.config.reference > docs/configuration.md``

The JSON Schema is draft 7 with nothing referred to, since that is what all editors understand. A
file that builds on another may leave out what that one says, so what must be there is asked of
files without a base.
"""

import json
from collections.abc import Iterator
from typing import Any

from transformer_cli.config.data_schema import TAG_PATTERN
from transformer_cli.config.differences import MAY_CHANGE, as_yaml
from transformer_cli.config.schema import Config
from transformer_cli.config.sections import LANGUAGE_PATTERN
from transformer_cli.config.setting_tree import BASE

Schema = dict[str, Any]
_BASE_MEANS = (
    "YAML file whose settings this one changes or adds to; its path starts from this file's "
    "directory. Sections are merged key by key, one of another kind and lists are replaced"
)

# --- JSON Schema ----------------------------------------------------------------------------------


def schema_text() -> str:
    """Return what ``transformer-cli config schema`` prints."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def json_schema() -> Schema:
    """Return the JSON Schema of a configuration file."""
    whole = inline_schema()
    properties = {BASE: {"type": "string", "minLength": 1, "description": _BASE_MEANS}}
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


# --- the page -------------------------------------------------------------------------------------

_HEAD = """\
# Configuration

*Made by `python -m transformer_cli.config.reference`; change the schema or that program instead.*

An experiment is a YAML file. Only `data` and `tokenizer` have to be in it, each with its `kind`;
everything else has a default. `transformer-cli config show my.yaml` prints every setting and where
its value comes from, `config validate` checks files, and `config schema` prints the JSON Schema by
which editors complete keys and underline mistakes, for those that run the YAML language server:

    # yaml-language-server: $schema=schema.json

as a file's first line, with the path of the schema from that file. [configs/](../configs) has files
to start from.

## How values are written

- **Numbers** as people write them: `4000`, `4e3` and `4000.0` are the same whole number, and `1e-4`
  is a number. Whole numbers go up to 2,147,483,647 where no other limit is given.
- **Text** needs no quotes, unless it reads as a number, `true`, `false` or `null`. `no`, `on` and
  `12:30` are text. Aliases and tags are refused, and so are keys written twice.
- **Paths** start from the directory that the command is run in, whichever file they stand in; `~`
  is your home directory. `base` alone starts from its file's directory. Where a file is missed
  that lies beside the configuration, the error says so.
- **Unknown keys** are mistakes, and so is a value of another type. All mistakes of a file are
  reported, a line each. For a name of fairseq, JoeyNMT, Marian, Sockeye or transformers, the error
  suggests our key.

## One file on another

    # mine.yaml
    base: configs/multi30k_de_en_bpe.yaml
    training:
      epochs: 20
      schedule: {kind: noam, warmup: 4000}

`base` names the file whose settings this one changes or adds to, by a path that starts from this
file's directory. That one may have a base in turn.

- Sections are merged key by key: `epochs` is changed here, `training.batch_tokens` stays.
- A section whose `kind` is another than the base's replaces it as a whole: of a `linear` schedule,
  nothing is left in a `noam` one. Lists are replaced, too.
- `--set training.epochs=5` comes last and changes the one key that it names.
- A mistake is reported with the file and line that it stands in. A run's `config.yaml` has every
  setting and no base; where each came from is kept beside it, in `origins.json`.

"""

_RESUMING = """\
## What may change when a run goes on

Until a run has its first checkpoint, everything may change. After that:

| key | what changes |
|---|---|
{rows}
`train` says what has changed, one line a setting, and writes it into the run's `config.yaml`, which
the other commands read, also where nothing is left to train. Files may have moved, if nothing is
left in their old places. Any other change is refused: choose another `--run-dir`, perhaps with
`init: RUN`, which takes over the weights, or discard the run with `--overwrite`.

Device, precision, threads and processes may change as well (`--precision auto` keeps the precision
on a CPU); `train` says so, and each session
records them in metrics.jsonl.

"""

_SETTINGS = """\
## Settings

| key | what it is |
|---|---|
"""


def reference() -> str:
    """Return the whole page, as Markdown."""
    sections = inline_schema()["properties"]
    table, rest = [f"| `{BASE}` | {_sentence(_cell(_BASE_MEANS))} |"], []
    for name, part in sections.items():
        if "properties" in part or "anyOf" in part:
            table.append(f"| [`{name}`](#{name}) | {_cell(part.get('description', _KINDS))} |")
            rest.append(f"\n## {name}\n\n{_section(name, part)}")
        else:
            table.append(f"| `{name}` | {_describe(part)} |")
    head = _HEAD + _RESUMING.format(rows=_may_change()) + _SETTINGS
    return head + "".join(f"{row}\n" for row in table) + "".join(rest)


def _may_change() -> str:
    return "".join(
        f"| `{key}{'*' if key.endswith('.') else ''}` | {_cell(effect)} |\n"
        for key, effect in MAY_CHANGE.items()
    )


_KINDS = "one of the kinds below"


def _section(name: str, part: Schema) -> str:
    """Return a section's text and table, followed by its unions of kinds."""
    if "anyOf" in part:
        kinds = "\n".join(_kind(name, kind) for kind in part["anyOf"])
        return f"{kinds}\n{_sources(part)}" if name == "data" else kinds
    text = f"{part['description']}\n\n{_table(part)}"
    for key, below in part["properties"].items():
        if "anyOf" in below:
            text += f"\n### {name}.{key}\n\n{_sentence(below['description'])}"
            if "default" in below:
                text += f" The default is {_inline_section(below['default'])}."
            text += f"\n\n{_section(f'{name}.{key}', below)}"
    return text


def _sources(data: Schema) -> str:
    """Return the table of a source, which stands in several keys of the section data."""
    corpus = next(kind for kind in data["anyOf"] if "sources" in kind["properties"])
    source = corpus["properties"]["sources"]["items"]
    return f"### Sources\n\n{source['description']}\n\n{_table(source)}"


def _kind(name: str, part: Schema) -> str:
    kind = part["properties"]["kind"]["const"]
    level = "#" * (3 + name.count("."))
    text = f"{level} {name}: kind {kind}\n\n{part['description']}\n"
    settings = {key: below for key, below in part["properties"].items() if key != "kind"}
    return f"{text}\n{_table({**part, 'properties': settings})}" if settings else text


def _table(part: Schema) -> str:
    rows = ["| key | value | default | what it is |", "|---|---|---|---|"]
    for key, below, default in _rows(part):
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


def _describe(part: Schema) -> str:
    return f"{_type(part)}; default `{as_yaml(part['default'])}`. {_sentence(part['description'])}"


def _type(part: Schema) -> str:
    """Return the values that a setting takes, in words."""
    if "anyOf" in part:
        return "a section, see below"
    if "const" in part:
        return f"`{part['const']}`"
    if "enum" in part:
        *others, last = (f"`{as_yaml(choice)}`" for choice in part["enum"])
        return f"{', '.join(others)} or {last}"
    match part["type"]:
        case [name, "null"]:
            return f"{_type({**part, 'type': name})}, or `null`"
        case ["integer", "string", "null"]:
            return "whole number or text, or `null`"
        case "integer" | "number" as name:
            kind = {"integer": "whole number", "number": "number"}[name]
            return f"{kind}, {bounds}" if (bounds := _bounds(part)) else kind
        case "boolean":
            return "`true` or `false`"
        case "array" if isinstance(part["items"], list):
            return f"list of {len(part['items'])}: {_type(part['items'][0])} each"
        case "array" if "enum" in part["items"]:
            return f"list of {_type(part['items'])}"
        case "array":
            return f"list of {_describe_mapping(part['items'])}"
        case "object" if _is_source(part):
            return _describe_mapping(part)
        case "object":
            return f"{_describe_mapping(part['additionalProperties'])} by name"
        case _ if part.get("format") == "path":
            return "path"
        case _ if part.get("pattern") == LANGUAGE_PATTERN:
            return "language code, as `de` or `pt-BR`"
        case _ if part.get("pattern") == TAG_PATTERN:
            return "letters, digits, `-` and `_`"
        case name:
            return str(name)


def _is_source(part: Schema) -> bool:
    """Return whether this is a ``SourceConfig``, which has a table of its own."""
    return "tmx" in part.get("properties", {})


def _describe_mapping(part: Schema) -> str:
    if _is_source(part):
        return "[source](#sources)"
    return f"`{{{', '.join(f'{key}: {_type(each)}' for key, each in part['properties'].items())}}}`"


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


def _inline_section(section: dict[str, object]) -> str:
    return f"`{{{', '.join(f'{key}: {as_yaml(value)}' for key, value in section.items())}}}`"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(reference(), end="")
