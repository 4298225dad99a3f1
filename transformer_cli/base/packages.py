"""This package's version, and imports of packages that only some commands need."""

import gc
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from transformer_cli.base.errors import MissingExtraError

__version__ = "1.0.0"
SCHEMA = Path("configs/schema.json")
TOY = Path("data/toy")


def shipped_directory() -> Path:
    """Return the directory with the ``configs`` and the toy text that come with the program.

    A wheel has them inside the package (see pyproject.toml); a checkout has them next to it.
    """
    package = Path(__file__).parents[1]
    packed = package / "shipped"
    return packed if packed.is_dir() else package.parent


def import_extra(module: str, extra: str | None, what: str) -> ModuleType:
    """Import a module of an optional package; raise MissingExtraError if it is not installed.

    ``what`` says, for the message, what needs it. ``extra`` is the extra of transformer-cli that
    installs it, or None if it is always installed, except on platforms that it does not support.
    """
    try:
        with no_collection():
            return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != package:
            raise  # it is installed, but a package that it needs is not
        needed = (extra and requirements(extra)) or [package]
        wanted = " ".join(f"'{name}'" for name in needed)
        raise MissingExtraError(
            f"{what}: needs the package {package}, which is not installed; pip install {wanted}"
        ) from error


def requirements(extra: str) -> list[str]:
    """Return the requirements of an extra of transformer-cli, in the form that pip accepts."""
    from importlib.metadata import PackageNotFoundError, requires  # takes a fifth of --help's time

    # Not 'transformer-cli[extra]': our name is not on the index yet, and anybody could take it.
    try:
        declared = requires("transformer-cli") or []
    except PackageNotFoundError:  # run from a checkout that is not installed
        return []
    of_extra = re.compile(rf"""\s*(.+?)\s*;.*\bextra == ['"]{extra}['"]""")
    return [match[1] for line in declared if (match := of_extra.match(line))]


@contextmanager
def no_collection() -> Iterator[None]:
    """Pause garbage collection in the block, because it takes a fifth of the time of imports."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def lazy_imports() -> Iterator[None]:
    """Make the block's imports of this program's modules lazy: load each when it is first used.

    A command's module can then import everything it needs at its top, although --help and shell
    completion need none of it, and torch takes seconds to import. Import modules, not names.
    """
    finder = _LazyFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        # Code that looks through all modules, as torch's does, must not load these. With
        # importlib.util's LazyLoader, they would be loaded while a module they import is loading.
        for name in finder.names:
            package, _, module = name.rpartition(".")
            del sys.modules[name]
            delattr(sys.modules[package], module)


class _LazyModule(ModuleType):
    """A stand-in for a module that was imported in a ``lazy_imports`` block."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import reads them before it is finished
            raise AttributeError(name)
        with no_collection():
            module = import_module(self.__name__)
        return getattr(module, name)


class _LazyFinder:
    """A finder that imports stand-ins for this program's modules, but packages as usual."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        real = PathFinder.find_spec(name, path) if name.startswith("transformer_cli.") else None
        if real is None or real.submodule_search_locations is not None:
            return None
        return ModuleSpec(name, self)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _LazyModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        self.names.append(module.__name__)
