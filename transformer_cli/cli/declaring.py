"""How a command declares its options, and how extensions add options to it.

A command's options are the fields of a dataclass and of its base classes. Each class has a heading
in ``--help``. An extension adds another dataclass, a subclass of ``ExtraOptions``, and lists it in
its manifest under the command's name::

    provides = {"translate options": {"tag": {"load": "options:TagOptions"}}}

The module of this class is imported if the command line has an option that the command itself does
not know, or if ``CommandOptions.concerns_extensions`` returns True. It is always imported if its
entry has ``"acts_unasked": True``.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeVar, get_args

import typer
from typer.core import TyperCommand

from transformer_cli.base import registry

if TYPE_CHECKING:
    from transformer_cli.inference.translator import TextTranslator

Given = TypeVar("Given", bound="CommandOptions")
Extra = TypeVar("Extra", bound="ExtraOptions")
AnyTranslator = TypeVar("AnyTranslator", bound="TextTranslator[Any]")

OTHERS = "Options"
_LAST = ("Hardware", OTHERS)
"""Headings that come last in a command's help."""


Mark = str
"""A property by which a command finds options that extensions added.

"reads", "writes", "run": the option names a path to read, a file to write, or a run. "torch": it
needs torch's search. "lines": it works only for lines of text or of a table. "scores": it says how
many translations per line are written with their scores. A file ending such as ".csv": with this
option, the output lines are lines of such a file.
"""


def argument(metavar: str, about: str, show_default: bool = False, **others: Any) -> Any:
    """Return the description of an argument, for use in ``Annotated``."""
    return typer.Argument(metavar=metavar, help=about, show_default=show_default, **others)


def option(
    metavar: str | None,
    about: str,
    *names: str,
    marks: Sequence[Mark] = (),
    **others: Any,
) -> Any:
    """Return the description of an option, for use in ``Annotated``.

    Args:
        metavar: the placeholder for its value in ``--help``; None: typer lists the choices.
        about: its help text.
        names: its names, e.g. ``--output`` and ``-o``; by default, the field's name.
        marks: properties, described at ``Mark``, by which ``CommandOptions.marked`` finds it.
        others: other arguments of ``typer.Option``.
    """
    described = typer.Option(*names, metavar=metavar, help=about, **others)
    described.marks = marks
    return described


def flag(about: str, name: str, **others: Any) -> Any:
    """Return the description of a flag, for ``Annotated``; unlike in typer, it has no negation."""
    return option(None, about, name, **others)


@dataclass(frozen=True)
class ExtraOptions:
    """Options that an extension adds to a command; they change what the command does.

    The fields of a subclass are annotated like the command's own options, and each has a default.
    ``--help`` lists them under ``heading``.
    """

    heading: ClassVar[str]
    about: ClassVar[str] = ""
    """Sentences to add to the command's description, before its examples."""

    def given(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield the name, the result of ``option``, and the value of each option that was given."""
        for each in fields(self):
            if (value := getattr(self, each.name)) != each.default:
                (described,) = get_args(each.type)[1:]
                yield each.name, described, value

    def check(self, given: Any) -> None:
        """Raise a UsageError if these options contradict the command's other options, ``given``."""

    def prepare(self, translator: AnyTranslator, given: Any) -> AnyTranslator:
        """Return a translator that applies these options, or raise a UsageError."""
        return translator

    def fingerprint(self) -> dict[str, str]:
        """Return the options that affect the output, as text; ``prepare`` covers files' content."""
        return {
            name: str(value) for name, about, value in self.given() if "writes" not in about.marks
        }


@dataclass(frozen=True)
class CommandOptions:
    """Options of a command to which extensions can add more; see ``declared_by``."""

    extras: tuple[ExtraOptions, ...] = field(default=(), kw_only=True)
    """One instance of each class that an extension adds, in the order of the manifest entries."""

    def concerns_extensions(self) -> bool:
        """Return whether to load the options of extensions even if none of them is given."""
        return False

    def extra(self, kind: type[Extra]) -> Extra:
        """Return the options of class ``kind``, or their defaults if the command has none."""
        return next((each for each in self.extras if isinstance(each, kind)), kind())

    def marked(self, mark: Mark) -> list[tuple[str, Any]]:
        """Return the name and value of each extension option that was given and has this ``Mark``.

        A repeatable option appears once for each of its values.
        """
        given = (each for extra in self.extras for each in extra.given())
        return [
            (f"--{name.rstrip('_').replace('_', '-')}", one)
            for name, about, value in given
            if mark in about.marks
            for one in (value if isinstance(value, list) else [value])
        ]

    def prepare(self, translator: AnyTranslator) -> AnyTranslator:
        """Return ``translator``, changed so that it applies the options of extensions."""
        for each in self.extras:
            translator = each.prepare(translator, self)
        return translator

    def check_extras(self) -> None:
        """Raise a UsageError if the options of extensions contradict the command's own."""
        for each in self.extras:
            each.check(self)


@dataclass(frozen=True)
class Declared(Generic[Given]):
    """A command: a function that takes a dataclass, whose fields are the command's options."""

    function: Callable[[Given], None]
    given: type[Given]

    def build(self, every: bool) -> Callable[..., None]:
        """Return a function for typer, whose parameters are the options.

        With ``every``, include all extensions' options; else only those with ``acts_unasked``.
        """
        command = self.function.__name__
        kinds = _extra_kinds(command, every)

        @wraps(self.function)
        def run(**values: Any) -> None:
            self.function(build_options(self.given, command, **values))

        if about := " ".join(kind.about for kind in kinds if kind.about):
            run.__doc__ = (run.__doc__ or "").replace("\b\n", f"{about}\n\n    \b\n", 1)
        declared = [parameter for kind in (self.given, *kinds) for parameter in _parameters(kind)]
        run.__signature__ = inspect.Signature(declared)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in declared}
        return run


def declared_by(given: type[Given]) -> Callable[[Callable[[Given], None]], Declared[Given]]:
    """Turn a function into a command, whose options are the fields of the dataclass ``given``."""
    return lambda function: Declared(function, given)


def build_options(given: type[Given], command: str, **values: Any) -> Given:
    """Return a command's options, including extensions', as if given on the command line."""
    own = {each.name for each in fields(given)}
    made = given(**{name: value for name, value in values.items() if name in own})
    kinds = _extra_kinds(command, every=False)
    known = own.union(each.name for kind in kinds for each in fields(kind))
    if not values.keys() <= known or made.concerns_extensions():
        kinds = _extra_kinds(command, every=True)
    extras = [
        kind(**{each.name: values[each.name] for each in fields(kind) if each.name in values})
        for kind in kinds
    ]
    return replace(made, extras=tuple(extras))


def _extra_kinds(command: str, every: bool) -> list[type[ExtraOptions]]:
    listed = registry.entries(f"{command} options").values()
    return [each.load() for each in listed if every or each.facts.get("acts_unasked")]


def _parameters(kind: type) -> Iterator[inspect.Parameter]:
    """Yield a dataclass's parameters, each with the ``--help`` heading of its defining class."""
    for each in inspect.signature(kind).parameters.values():
        if each.name == "extras":
            continue
        declaring = next(one for one in kind.__mro__ if each.name in inspect.get_annotations(one))
        (metadata,) = each.annotation.__metadata__
        described = copy(metadata)
        described.rich_help_panel = vars(declaring).get("heading", OTHERS)
        yield each.replace(annotation=Annotated[each.annotation.__origin__, described])


class GroupedCommand(TyperCommand):
    """A command whose help lists the options under the headings of their classes."""

    def knows(self, arguments: Sequence[str]) -> bool:
        """Return whether this command has all options in ``arguments``; False for ``--help``."""
        names = {name for each in self.params for name in (*each.opts, *each.secondary_opts)}
        given = (word.partition("=")[0] for word in arguments if word.startswith("-"))
        return names.issuperset(name for name in given if name != "-")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options under each heading."""
        listed: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for parameter in self.get_params(ctx):
            is_argument = parameter.param_type_name == "argument"
            panel = getattr(parameter, "rich_help_panel", None) or OTHERS
            if (record := parameter.get_help_record(ctx)) is not None:
                listed.setdefault("Arguments" if is_argument else panel, []).append(record)
        for heading in sorted(listed, key=_LAST.__contains__):
            if listed[heading]:
                with formatter.section(heading):
                    formatter.write_dl(listed[heading])
