"""Shell completion of values: settings, splits, checkpoints and engines; files are the shell's.

It answers a key press: nothing here imports torch or pydantic. And it reports nothing: where files
are broken it offers no values, and the shell completes file names.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer

from transformer_cli.base import registry
from transformer_cli.base.packages import lazy_imports

with lazy_imports():
    from transformer_cli.base import files
    from transformer_cli.config import setting_tree, shipped

Values = dict[str, str]  # what may stand on the command line, with its help
Completer = Callable[[typer.Context, str], Values]


def complete(metavar: str, context: typer.Context, incomplete: str) -> list[Any]:
    """Return the values that a word may become, with their help.

    ``metavar`` is what stands for the value in ``--help``: SPLIT, or choices with ``|`` between.
    """
    try:
        if metavar in _COMPLETERS:
            return list(_COMPLETERS[metavar](context, incomplete).items())
        choices = [each for each in metavar.split("|") if each.islower()]
        return [each for each in choices if each.startswith(incomplete)]
    except Exception:  # files may hold anything, and a traceback would fill the prompt
        return []


def _complete_setting(context: typer.Context, incomplete: str) -> Values:
    """Complete KEY=VALUE: the keys first, and the values of a single key."""
    settings = _list_settings()
    key, equals, _ = incomplete.partition("=")
    keys = [key] if equals else [name for name in settings if name.startswith(key)]
    items = {f"{name}=": settings[name][0] for name in keys if not equals}
    # Two items at least, or the shell would add a space after the `=`.
    if len(keys) == 1:
        (name,) = keys
        items |= {f"{name}={value}": means for value, means in settings[name][1].items()}
    return items


def _list_settings() -> dict[str, tuple[str, Values]]:
    """Return the help of each setting, and values it may have, by its dotted key."""
    settings: dict[str, tuple[str, Values]] = {}
    for key, part in _iter_settings():
        _, values = settings.setdefault(key, (part["description"], {}))
        values |= _values(part)
    return settings


def _iter_settings() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each setting's dotted key and its part of the schema, for each kind that has it."""
    schema = (shipped.shipped_directory() / shipped.SCHEMA).read_text(encoding="utf-8")
    properties = json.loads(schema)["properties"]
    del properties["base"]  # of a file
    yield from _iter_below(properties)


def _iter_below(properties: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, part in properties.items():
        kinds = [kind for kind in part.get("anyOf", [part]) if "properties" in kind]
        for kind in kinds:
            yield from _iter_below(kind["properties"], f"{above}{name}.")
        if not kinds:
            yield above + name, part


def _values(part: dict[str, Any]) -> Values:
    """Return the choices of a setting, or else its default."""
    if "const" in part:
        return {part["const"]: part["description"]}
    default = [part["default"]] if "default" in part else []
    choices = [False, True] if part["type"] == "boolean" else part.get("enum", default)
    # A list would need quotes.
    texts = [choice if isinstance(choice, str) else json.dumps(choice) for choice in choices]
    return {text: part["description"] for text in texts if not text.startswith(("[", "{"))}


def _complete_split(context: typer.Context, incomplete: str) -> Values:
    """Complete a split of the run that the command line names."""
    return dict.fromkeys(_split_names(_run(context)), "")


def _complete_run_split(context: typer.Context, incomplete: str) -> Values:
    """Complete a split of the first run that the command line names, or RUN:NAME."""
    path, colon, _ = incomplete.rpartition(":")
    names = _split_names(Path(path) if colon else _run(context))
    return dict.fromkeys((path + colon + name for name in names), "")


def _split_names(run: Path) -> list[str]:
    text = files.read_small(run / "config.yaml").decode()
    tree = setting_tree.parse(text, "")
    config: Any = setting_tree.values(tree)
    # As ``CorpusKind.split_names`` returns them, which needs the whole schema.
    match config["data"]:
        case {"kind": "files", "test": tests}:
            return ["train", "val", *tests]
        case {"kind": "corpus"}:
            # A run has the files of its splits.
            return sorted({path.stem for path in (run / "corpus").glob("*.src")})
        case {"kind": "toy" | "copy"}:
            return ["train", "val", "test"]
        case {"kind": kind} if kind in (others := registry.entries("corpus")):
            return list(others[kind].facts.get("splits", "").split())
    return []


def _complete_checkpoint(context: typer.Context, incomplete: str) -> Values:
    """Complete a checkpoint of the run that the command line names."""
    special = {"best": "best validation", "last": "newest"}
    names = [path.name for path in (_run(context) / "checkpoints").iterdir()]
    if "average" in names:
        special["average"] = "made by transformer-cli average"
    steps = [name for name in sorted(names) if re.fullmatch(r"step-\d+", name)]
    return special | dict.fromkeys(steps, "")


def _run(context: typer.Context) -> Path:
    # An option at the end that has no value yet keeps arguments from becoming parameters.
    runs = context.args or context.params.get("runs") or [context.params["run"]]
    return Path(runs[0])


_COMPLETERS: dict[str, Completer] = {
    "KEY=VALUE": _complete_setting,
    "SPLIT": _complete_split,
    "[RUN:]NAME": _complete_run_split,
    "best|last|average|PATH": _complete_checkpoint,
}
