"""Tokenizer kinds, one a module: its name is the ``kind`` of the settings and of tokenizer.json.

A kind's module has

- ``Manifest``: its subclass of ``TokenizerManifest``, whose ``load`` returns the tokenizers of a
  directory;
- ``learn(config, text, directory)``, which writes a directory's files and returns the manifest.

A new kind is such a module and a subclass of ``config.tokenizer_schema.TokenizerSection``,
listed in ``TokenizerConfig``.
"""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType


def import_kind(kind: str) -> ModuleType:
    """Import a kind's module; raise ValueError if there is none."""
    kinds = sorted(module.name for module in iter_modules(__path__))
    if kind not in kinds:
        raise ValueError(f"expected one of {', '.join(kinds)}, found {kind!r}")
    return import_module(f"{__name__}.{kind}")
