"""``--version --verbose``: details for bug reports."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from typer.core import TyperGroup

from transformer_cli.base import registry
from transformer_cli.base.errors import UsageError
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.display import align_columns

with lazy_imports():
    from transformer_cli.extensions.bench import machine


@contextmanager
def add_verbose(group: TyperGroup, arguments: list[str]) -> Iterator[None]:
    """Add the option ``--verbose`` to the program."""
    declaring = typer.Typer(add_completion=False, rich_markup_mode=None)
    declaring.callback()(_declare)
    group.params += typer.main.get_command(declaring).params[:1]
    yield


def _print_facts(is_requested: bool) -> None:
    if not is_requested:
        return
    if "--version" not in sys.argv:
        raise UsageError("--verbose: is for --version, which is missing; add it, or leave it out")
    facts = machine.describe_machine() | {"extensions": ", ".join(registry.installed()) or "none"}
    for line in align_columns(facts.items(), left=2):
        print(line)
    raise typer.Exit()


def _declare(
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            help="With --version: details for bug reports.",
            callback=_print_facts,
            expose_value=False,
            is_eager=True,  # so that it is read before --version, wherever it stands
        ),
    ] = False,
) -> None:
    """Declare the option."""
