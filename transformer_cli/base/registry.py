"""The installed extensions: their manifests, and the entries that they add.

Each folder of ``extensions/`` has a ``manifest.py`` of plain data. Nothing else is imported until
an entry is used::

    requires = ("numba",)  # packages
    needs = ("other",)  # other extensions that it imports
    provides = {"engine": {"fast": {"load": "engine:FastEngine"}}}

``provides`` maps the name of an interface to its entries, keyed by name. ``load`` names a module of
the folder and an attribute of that module. An entry's other keys, its facts, are for the code that
uses the interface. Other packages declare a manifest as an entry point of the group ``GROUP``, and
name the version of the interfaces in it: ``api = 1``.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module, util
from pathlib import Path
from types import ModuleType
from typing import Any

API = 1
"""The version of the interfaces, which must be the ``api`` in an extension's manifest."""
GROUP = "transformer_cli.extensions"
_ROOT = Path(__file__).parents[2]
_FOLDER = _ROOT / "transformer_cli" / "extensions"


@dataclass(frozen=True)
class Entry:
    """One thing that an extension adds to an interface, e.g. a search engine or a command."""

    name: str
    extension: str
    facts: Mapping[str, Any]  # the entry's keys and values in the manifest
    package: str  # of the modules that the facts name

    def load(self, fact: str = "load") -> Any:
        """Return what ``facts[fact]`` names, as ``module:attribute``; import the module."""
        module, _, attribute = self.facts[fact].partition(":")
        return getattr(import_module(f"{self.package}.{module}"), attribute)

    def read_summary(self) -> str:
        """Return the first line of a shipped command's docstring, without importing its module."""
        # Importing all commands to list them would double the time of --help. Searching for their
        # files, or compiling an expression for each, would add a few percent.
        module, _, function = self.facts["load"].partition(":")
        path = _ROOT.joinpath(*self.package.split("."), module).with_suffix(".py")
        source = path.read_text(encoding="utf-8")
        _, _, body = source.partition(f"\ndef {function}(")
        body = body or source.partition(f"\ndef _{function}(")[2]
        return body.partition('\n    """')[2].partition("\n")[0].removesuffix('"""')


def installed() -> dict[str, Path]:
    """Return the folder of each shipped extension that is usable here, keyed by extension name."""
    return {name: _FOLDER / name for name in sorted(_shipped())}


def is_installed(name: str) -> bool:
    """Return whether an extension of this name, from any package, is usable here."""
    return name in _shipped() or name in _others()


def owner_of(kind: type) -> str | None:
    """Return the name of the extension that defines a class, or None if the core defines it."""
    # If other packages were never searched, none of their classes is in use.
    loaded = _others() if _others.cache_info().currsize else {}
    for name, manifest in {**_shipped(), **loaded}.items():
        if kind.__module__.startswith(f"{manifest.__name__.rpartition('.')[0]}."):
            return name
    return None


def entries(interface: str) -> dict[str, Entry]:
    """Return the entries of an interface that ship with this package, keyed by name."""
    return dict(_entries_of(_shipped(), interface))


def find(interface: str, name: str) -> Entry | None:
    """Return an entry, or None; search other packages only if this one has none of that name."""
    # importlib.metadata takes a fifth of --help's time, so it comes last.
    return entries(interface).get(name) or all_entries(interface).get(name)


def all_entries(interface: str) -> dict[str, Entry]:
    """Return all entries of an interface, including those of other packages, keyed by name."""
    return {**dict(_entries_of(_others(), interface)), **entries(interface)}


def load_each(entries: Iterable[Entry]) -> Iterator[Any]:
    """Load each entry and yield the result; skip broken ones of other packages with a warning."""
    for entry in entries:
        try:
            yield entry.load()
        except Exception as error:  # other people's code may raise anything
            if _others().pop(entry.extension, None) is None:
                raise
            _warn_of(entry.extension, error)


def describe_missing(kind: str, name: str, names: Iterable[str] = ()) -> str:
    """Return an error message for a name that nothing provides; ``names`` are the known names."""
    known = f"choose from {', '.join(names)}{_describe_unusable()}" if names else ""
    return f"{name}: no such {kind} is installed; {known or describe_installed()}"


def describe_installed() -> str:
    """Return the end of an error message: the usable extensions, and why others are not usable."""
    usable = ", ".join(sorted({*_shipped(), *_others()})) or "none"
    return f"installed extensions: {usable}{_describe_unusable()}"


def _describe_unusable() -> str:
    return "".join(f"; {extension} {reason}" for extension, reason in _unusable.items())


def _entries_of(manifests: Mapping[str, ModuleType], interface: str) -> Iterator[tuple[str, Entry]]:
    for extension, manifest in manifests.items():
        package = manifest.__name__.rpartition(".")[0]
        for name, facts in manifest.provides.get(interface, {}).items():
            yield name, Entry(name, extension, facts, package)


# --- Manifests ------------------------------------------------------------------------------------

_unusable: dict[str, str] = {}
"""The reason why each unusable extension is unusable, keyed by extension name."""


@cache
def _shipped() -> dict[str, ModuleType]:
    modules = {path.parent.name: _read(path) for path in sorted(_FOLDER.glob("*/manifest.py"))}
    usable = {name: module for name, module in modules.items() if _is_usable(name, module)}
    needs = {name: set(getattr(module, "needs", ())) for name, module in usable.items()}
    while lacking := {name: lacks for name in usable if (lacks := needs[name] - usable.keys())}:
        for name, others in lacking.items():
            _unusable[name] = f"needs extensions that are not usable: {', '.join(sorted(others))}"
            del usable[name]
    return usable


def _read(path: Path) -> ModuleType:
    """Run a shipped manifest, without the package and the bytecode that importlib would load."""
    # This takes 2 ms for all of them instead of 8, a tenth of --help's time.
    manifest = ModuleType(f"transformer_cli.extensions.{path.parent.name}.manifest")
    vars(manifest)["api"] = API  # it comes with this version
    exec(compile(path.read_bytes(), path, "exec"), vars(manifest))
    return manifest


@cache
def _others() -> dict[str, ModuleType]:
    """Return the manifests of other packages; warn about broken ones and leave them out."""
    from importlib.metadata import entry_points

    modules = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            module = point.load()
            is_usable = _is_usable(point.name, module)
        except Exception as error:  # other people's code may raise anything
            _warn_of(point.name, error)
            continue
        if is_usable:
            modules[point.name] = module
    return modules


def _warn_of(name: str, error: Exception) -> None:
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    print(f"warning: extension {name} is left out: {reason}", file=sys.stderr)


def _is_usable(name: str, manifest: ModuleType) -> bool:
    """Return whether an extension has this API version and its packages; if not, record why."""
    missing = [each for each in getattr(manifest, "requires", ()) if not _has_package(each)]
    if manifest.api != API:
        _unusable[name] = f"is for version {manifest.api} of the interfaces, not {API}"
    elif missing:
        _unusable[name] = f"needs packages that are not installed: {', '.join(missing)}"
    else:
        for added in manifest.provides.values():
            for facts in added.values():
                dict(facts)
        return True
    return False


def _has_package(name: str) -> bool:
    try:
        return util.find_spec(name) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False
