"""What is installed here: tests that try all there is leave out what an extension would add."""

from importlib.util import find_spec
from pathlib import Path

from transformer_cli import extensions
from transformer_cli.base import registry
from transformer_cli.cli import list_commands

_EXTENSIONS = [
    "bench",
    "checks",
    "cluster",
    "constraints",
    "corpora",
    "ctranslate2",
    "documents",
    "exchange",
    "experiments",
    "many_files",
    "observers",
    "report",
    "stores",
    "tokenizers",
]
_CONFIGS = Path(__file__).parents[1] / "configs"
# Shipped configurations whose kind of data an extension has.
_KIND_OF = dict.fromkeys(("everyday_de_en", "tatoeba_de_en", "tatoeba_en_de"), "corpus")


def find_configs() -> list[Path]:
    """Return the shipped configurations that can be used."""
    kinds = {None, *registry.entries("corpus")}
    return [path for path in sorted(_CONFIGS.glob("*.yaml")) if _KIND_OF.get(path.stem) in kinds]


def is_whole() -> bool:
    """Return whether all extensions of the repository are here, as its pages tell of them."""
    return all(find_spec(f"{extensions.__name__}.{name}") for name in _EXTENSIONS)


def is_missing(path: Path) -> bool:
    """Return whether a file, by its path, is of an extension that is not here."""
    name = path.as_posix().partition("extensions/")[2].partition("/")[0].removesuffix(".md")
    return name in _EXTENSIONS and find_spec(f"{extensions.__name__}.{name}") is None


def has_command(name: str) -> bool:
    """Return whether there is a command of that name."""
    return name in list_commands()


def has_engine(name: str) -> bool:
    """Return whether an extension has a search engine of that name."""
    return registry.find("engine", name) is not None
