"""What is installed: the extensions' manifests, and the entries with which they plug in.

Each folder of ``extensions/`` has a ``manifest.py`` of plain data, which is all that is imported
until an entry is used::

    api = 1
    requires = ("ctranslate2",)
    provides = {"engine": {"fast": {"load": "engine:FastEngine", "help": "…"}}}

``provides`` maps an interface to entries by name; ``load`` names a module of the folder and what
to take from it, and everything else in an entry is a fact that the interface's owner reads.
Other people's packages name such a module as an entry point of the group
``transformer_cli.extensions``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module, util
from pathlib import Path
from types import ModuleType
from typing import Any

API = 1
"""The version of the interfaces; a manifest with another one is ignored."""
GROUP = "transformer_cli.extensions"
_FOLDER = Path(__file__).parents[1] / "extensions"


@dataclass(frozen=True)
class Entry:
    """One thing that an extension adds to an interface."""

    name: str
    extension: str
    facts: Mapping[str, Any]
    package: str

    def load(self, fact: str = "load") -> Any:
        """Import the module that a fact names, as in ``module:attribute``; return the attribute."""
        module, _, attribute = self.facts[fact].partition(":")
        return getattr(import_module(f"{self.package}.{module}"), attribute)


def installed() -> list[str]:
    """Return the names of the extensions that can be used here, sorted."""
    return sorted(_shipped())


def is_installed(name: str) -> bool:
    """Return whether an extension of this name, of whatever package, can be used here."""
    return name in _shipped() or name in _others()


def owner_of(kind: type) -> str | None:
    """Return the name of the extension that a class is from; None: it is the core's."""
    # If none of the others has been asked for, none of their classes is in use.
    loaded = _others() if _others.cache_info().currsize else {}
    for name, manifest in {**_shipped(), **loaded}.items():
        if kind.__module__.startswith(f"{manifest.__name__.rpartition('.')[0]}."):
            return name
    return None


def entries(interface: str) -> dict[str, Entry]:
    """Return the entries of an interface by name, as shipped with this package."""
    return dict(_entries_of(_shipped(), interface))


def find(interface: str, name: str) -> Entry | None:
    """Return an entry; look in other packages too if this one has no such name."""
    # importlib.metadata takes a fifth of --help's time, so it is asked last.
    return entries(interface).get(name) or all_entries(interface).get(name)


def all_entries(interface: str) -> dict[str, Entry]:
    """Return the entries of an interface by name, with those of other packages."""
    return {**dict(_entries_of(_others(), interface)), **entries(interface)}


def describe_missing(kind: str, name: str) -> str:
    """Return an error's words for a name that nothing provides."""
    return f"{name}: no such {kind} is installed; extensions here: {', '.join(installed())}"


def _entries_of(manifests: Mapping[str, ModuleType], interface: str) -> Iterator[tuple[str, Entry]]:
    for extension, manifest in manifests.items():
        package = manifest.__name__.rpartition(".")[0]
        for name, facts in manifest.provides.get(interface, {}).items():
            yield name, Entry(name, extension, facts, package)


@cache
def _shipped() -> dict[str, ModuleType]:
    names = sorted(path.parent.name for path in _FOLDER.glob("*/manifest.py"))
    modules = {name: import_module(f"transformer_cli.extensions.{name}.manifest") for name in names}
    return {name: module for name, module in modules.items() if _is_usable(module)}


@cache
def _others() -> dict[str, ModuleType]:
    from importlib.metadata import entry_points

    modules = {point.name: point.load() for point in entry_points(group=GROUP)}
    return {name: module for name, module in sorted(modules.items()) if _is_usable(module)}


def _is_usable(manifest: ModuleType) -> bool:
    if manifest.api != API:
        return False
    return all(util.find_spec(name) is not None for name in getattr(manifest, "requires", ()))
