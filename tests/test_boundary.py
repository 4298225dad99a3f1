"""The core names no extension: nothing in its text is a name that a manifest or its folder has."""

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import transformer_cli
from transformer_cli.base import registry
from transformer_cli.cli import list_commands
from transformer_cli.cli.declaring import CommandOptions
from transformer_cli.config.sections import Section

PACKAGE = Path(transformer_cli.__file__).parent
# Words that the core uses in their ordinary sense, or has as names of its own. Such a word only
# counts as an extension's name as its option, key, or in quotes. So does any ending of files; and
# the name of a command counts behind the program's, that of a module where it is imported.
ORDINARY = """
    Translation add characters cluster concatenate file imported memory more n_best name own report
    reserved sample schema scores seen show sources split tag terms
"""
# Names that the core still has. A name leaves the list with its last occurrence; none is added.
STILL = """
    corpus lines
"""


# It refuses files by their endings, whatever is installed: a document is never translated as lines.
GUARD = "inference/plain_text.py"


def test_the_core_has_no_name_of_an_extension() -> None:
    found = {name: places for name, places in _find_names().items() if name not in STILL.split()}
    assert found == {}


def _find_names() -> dict[str, list[str]]:
    """Return the lines of the core in which a name of an extension stands, by name."""
    lines = [
        (f"{path.relative_to(PACKAGE)}:{number}: {line.strip()}", line)
        for path in sorted(PACKAGE.rglob("*.py"))
        if not path.is_relative_to(PACKAGE / "extensions") and path != PACKAGE / GUARD
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    ]
    forms: dict[str, set[str]] = {}
    for name, form in _names():
        is_placed = form.startswith((f"{PACKAGE.name}.", "transformer-cli ", '".'))
        is_plain = is_placed or name in ORDINARY.split()
        forms.setdefault(name, set()).update({form} if is_plain else {form, name})
    found = {}
    for name, alternatives in sorted(forms.items()):
        pattern = re.compile(
            "|".join(rf"(?<![\w.-]){re.escape(each)}(?![\w-])" for each in alternatives)
        )
        if places := [place for place, line in lines if pattern.search(line)]:
            found[name] = places
    return found


def _names() -> Iterator[tuple[str, str]]:
    """Yield each name, and what the core would write if it meant the extension's."""
    for extension, manifest in registry._shipped().items():
        yield extension, f"transformer_cli.extensions.{extension}"
        for path in (PACKAGE / "extensions" / extension).rglob("*.py"):
            if path.stem not in ("__init__", "manifest"):
                yield path.stem, f"transformer_cli.extensions.{extension}.{path.stem}"
        for interface in manifest.provides:
            for entry in registry.entries(interface).values():
                if entry.extension == extension:
                    yield from _names_of(interface, entry)


def _names_of(interface: str, entry: registry.Entry) -> Iterator[tuple[str, str]]:
    """Yield the names of an entry: its own, file endings and the like, options and settings."""
    if interface == "command":
        yield entry.name, f"transformer-cli {entry.name}"
    elif interface not in ("location", "download") and not interface.endswith(
        (" options", " settings")
    ):
        yield entry.name, f'"{entry.name}"'
    for fact, value in entry.facts.items():
        if isinstance(value, tuple) and fact != "kinds":  # those of the core
            yield from ((each, f'"{each}"') for each in value)
    loaded: list[Any] = [entry.load(fact) for fact in ("load", "settings") if fact in entry.facts]
    for kind in loaded:
        if interface.endswith(" options") and is_dataclass(kind):
            for field in fields(kind):
                if field.name in _core_options() | _core_settings(Section):
                    continue
                yield field.name, "--" + field.name.rstrip("_").replace("_", "-")
        elif isinstance(kind, type) and issubclass(kind, Section):
            section = {"corpus": "data"}.get(interface, interface.removesuffix(" settings"))
            own = kind.__annotations__.keys() & kind.model_fields.keys() - _core_settings(Section)
            yield from ((name, f"{section}.{name}") for name in own)


@cache
def _core_options() -> set[str]:
    """Return the fields of the core's own options."""
    for entry in list_commands().values():
        entry.load()
    kinds, found = [CommandOptions], set[str]()
    for kind in kinds:
        kinds += kind.__subclasses__()
        if ".extensions." not in kind.__module__:
            found |= {field.name for field in fields(kind)}
    return found


def _core_settings(kind: type[Section]) -> set[str]:
    """Return the keys of all sections of the core."""
    own = () if ".extensions." in kind.__module__ else kind.model_fields.keys()
    return {*own, *(name for each in kind.__subclasses__() for name in _core_settings(each))}


if __name__ == "__main__":
    for name, places in _find_names().items():
        print(f"{name}: {len(places)}", *places[:3], sep="\n    ")
