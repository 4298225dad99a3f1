"""Options that an extension adds to a command, on a tiny command."""

from dataclasses import dataclass
from types import ModuleType
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from transformer_cli.base import registry
from transformer_cli.base.errors import UsageError
from transformer_cli.cli.declaring import (
    CommandOptions,
    ExtraOptions,
    GroupedCommand,
    declared_by,
    flag,
    option,
)


@dataclass(frozen=True)
class Sizes(CommandOptions):
    heading = "Sizes"
    size: Annotated[int, option("N", "How large.")] = 1


@dataclass(frozen=True)
class Given(Sizes):
    heading = "Hardware"
    fast: Annotated[bool, flag("In haste.", "--fast")] = False


@dataclass(frozen=True)
class Colours(ExtraOptions):
    heading = "Colours"
    about = "Any colour is pretty."
    colour: Annotated[str, option("NAME", "Which colour.")] = "red"

    def check(self, given: Given) -> None:
        if given.fast and self.colour == "blue":
            raise UsageError("--colour blue takes time; leave out --fast")


def build(monkeypatch: pytest.MonkeyPatch) -> tuple[list[Given], typer.Typer]:
    manifest = ModuleType(f"{__name__.rpartition('.')[0]}.manifest")
    manifest.api = registry.API  # type: ignore[attr-defined]
    manifest.provides = {  # type: ignore[attr-defined]
        "paint options": {"colours": {"load": f"{__name__.rpartition('.')[2]}:Colours"}}
    }
    monkeypatch.setattr(registry, "_shipped", lambda: {"colours": manifest})
    seen: list[Given] = []

    @declared_by(Given)
    def paint(given: Given) -> None:
        """Paint.

        Slowly.

        \b
        Example:
          paint
        """
        given.check_extras()
        seen.append(given)

    app = typer.Typer(rich_markup_mode=None)
    app.command("paint", cls=GroupedCommand)(paint.build(every=True))
    return seen, app


def test_an_extension_adds_options_which_help_lists_under_its_heading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen, app = build(monkeypatch)
    assert CliRunner().invoke(app, ["--size", "3", "--colour", "green"]).exit_code == 0
    (given,) = seen
    assert (given.size, given.fast) == (3, False)
    assert given.extra(Colours) == Colours("green")
    text = CliRunner().invoke(app, ["--help"]).output
    headings = [line for line in text.splitlines() if line[:1].isalpha() and line.endswith(":")]
    lines = [line.strip() for line in text.splitlines()]
    places = [lines.index(line) for line in ("Slowly.", "Any colour is pretty.", "Example:")]
    assert places == sorted(places)
    assert headings == ["Sizes:", "Colours:", "Hardware:", "Options:"]


def test_an_extension_checks_what_its_options_are_used_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, app = build(monkeypatch)
    result = CliRunner().invoke(app, ["--fast", "--colour", "blue"])
    assert isinstance(result.exception, UsageError)


def test_options_that_a_command_was_not_given_have_their_defaults() -> None:
    assert Given(size=2).extra(Colours) == Colours("red")
