"""Packages that only some commands need, and the extras that bring them."""

from importlib import import_module
from types import ModuleType

from transformer_cli.errors import MissingExtraError


def imported(module: str, extra: str, what: str) -> ModuleType:
    """A module of an optional package.

    Args:
        module: its name, as in 'plotly.io'.
        extra: the extra of transformer-cli that brings it.
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
        raise MissingExtraError(
            f"{what}: needs the package {package}, which is not installed; "
            f"pip install 'transformer-cli[{extra}]'"
        ) from error
