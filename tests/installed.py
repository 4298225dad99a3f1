"""What is installed here: tests that try all there is leave out what an extension would add."""

import re
from importlib.util import find_spec
from pathlib import Path

from transformer_cli import extensions
from transformer_cli.base import registry
from transformer_cli.cli import list_commands

_INDEX = Path(__file__).parents[1] / "docs" / "extensions" / "README.md"
_EXTENSIONS = set(re.findall(r"^\| \[(\w+)\]", _INDEX.read_text("utf-8"), re.MULTILINE))
"""The names of the repository's extensions, whether they are here or not."""


def is_whole() -> bool:
    """Return whether all extensions of the repository are here, as its pages tell of them."""
    return all(find_spec(f"{extensions.__name__}.{name}") for name in _EXTENSIONS)


def is_missing(path: Path) -> bool:
    """Return whether a file, by its path, is of an extension that is not here."""
    name = path.as_posix().partition("extensions/")[2].partition("/")[0].removesuffix(".md")
    return name in _EXTENSIONS and find_spec(f"{extensions.__name__}.{name}") is None


def has_command(name: str) -> bool:
    """Return whether there is a command of that name, or one of ``config``."""
    return name in list_commands() or registry.find("config command", name) is not None


def has_engine(name: str) -> bool:
    """Return whether an extension has a search engine of that name."""
    return registry.find("engine", name) is not None
