"""Packages that only some commands need, and the extras that bring them."""

import re
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires
from types import ModuleType

from transformer_cli.errors import MissingExtraError


def import_extra(module: str, extra: str | None, what: str) -> ModuleType:
    """Import a module of an optional package.

    Args:
        module: its name, as in 'plotly.io'.
        extra: the extra of transformer-cli that brings it; None: every install has it, but on
            platforms that it is not made for.
        what: what needs it, as in 'report'.

    Raises:
        MissingExtraError: the package is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != package:
            raise  # it is installed, and lacks a package of its own
        wanted = " ".join(f"'{each}'" for each in (extra and _requirements(extra)) or [package])
        raise MissingExtraError(
            f"{what}: needs the package {package}, which is not installed; pip install {wanted}"
        ) from error


def _requirements(extra: str) -> list[str]:
    """Return an extra's requirements, as pip takes them.

    Our own name would not do: it is on no index, where anybody may take it.
    """
    try:
        declared = requires("transformer-cli") or []
    except PackageNotFoundError:  # run from a checkout that is not installed
        return []
    of_extra = re.compile(rf"""\s*(.+?)\s*;.*\bextra == ['"]{extra}['"]""")
    return [match[1] for each in declared if (match := of_extra.match(each))]
