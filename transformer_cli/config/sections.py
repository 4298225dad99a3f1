"""What all sections of a config share: the base class, the types of values, and ``Kinds``.

Extensions add settings in two ways. If a section has the key ``kind``, they add values of that key,
each with its own class; and they add keys to a section of the core, as the fields of a mixin::

    provides = {
        "corpus": {"mine": {"settings": "settings:MineConfig", ...}},
        "tokenizer settings": {"shout": {"load": "settings:ShoutSettings"}},
    }

    class ShoutSettings(Section):
        shout: int = setting(0, "exclamation marks after each line")

Both are imported when a config uses them. If ``shout`` differs from its default, the section is an
instance of the mixin and of its own class. Otherwise it is only an instance of its own class, and
the config.yaml of a run does not have the key.
"""

import os.path
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    PlainSerializer,
    WrapValidator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema

from transformer_cli.base import registry
from transformer_cli.base.artifact import sum_json
from transformer_cli.base.errors import did_you_mean
from transformer_cli.base.locations import is_url, text_path
from transformer_cli.config import languages
from transformer_cli.config.setting_tree import describe_value

# Bounds far above what any machine can compute, and below the limits of the libraries.
Count = Annotated[int, Field(gt=0, lt=2**31)]
CountOrZero = Annotated[int, Field(ge=0, lt=2**31)]
Width = Annotated[int, Field(gt=0, le=2**20)]
Layers = Annotated[int, Field(gt=0, le=1000)]
Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
DropoutRate = Annotated[float, Field(ge=0.0, le=0.9)]
Language = Annotated[
    str,
    Field(max_length=languages.LONGEST, pattern=languages.PATTERN),
    AfterValidator(languages.normalize_language),
]


def setting(
    default: Any,
    description: str | None,
    *,
    may_change: bool = False,
    may_differ: bool = False,
    option: tuple[str, str] | None = None,
) -> Any:
    """Return the pydantic field of a setting with a default value.

    Args:
        default: its default value.
        description: what it means, with its unit; None for a section, whose docstring says that.
        may_change: weights do not depend on it, except through the length of the training, so a
            run can be resumed with another value. docs/configuration.md says what that does.
        may_differ: runs that differ only in such settings form a group, and ``compare`` reports
            the mean of the group.
        option: the metavar and the help of the setting's option, for a search setting.
    """
    facts = {"may_change": may_change, "may_differ": may_differ, "option": option}
    given: Any = {name: value for name, value in facts.items() if value} or None
    return Field(default, description=description, json_schema_extra=given)


class Section(BaseModel):
    """A part of the config; it rejects unknown keys, and its values never change once read."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, strict=True, allow_inf_nan=False
    )
    place: ClassVar[str | None] = None
    """The section's key, if extensions may add keys to it (with the interface "KEY settings")."""
    mixins: ClassVar[tuple[type["Section"], ...]] = ()
    """The classes of extensions that add their fields to those of this section."""

    @model_validator(mode="wrap")
    @classmethod
    def _with_added_keys(cls, values: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        mixins = _find_mixins(cls, values.keys()) if isinstance(values, dict) else []
        if not mixins:
            return validate(values)
        made: Any = _mix(cls, *mixins).model_validate(values)
        # Equal settings have equal classes and records, whether or not a default is written out.
        fields = list_fields(mixins)
        unused = {key for key in fields if getattr(made, key) == fields[key].get_default()}
        rest = {key: value for key, value in values.items() if key not in unused}
        return cls.model_validate(rest) if len(rest) < len(values) else made

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the schema with all keys that extensions add."""
        whole = extend_fully(cls)
        return handler(schema if whole is cls else whole.__pydantic_core_schema__)

    def check_with(self, config: Any) -> None:
        """Raise ValueError, with a dotted key first, if this section does not fit ``config``.

        Subclasses and mixins that have something to check call ``super().check_with(config)``.
        """

    def fingerprint(self, **which: Any) -> str:
        """Return the SHA-256 of the settings; pass ``which``, e.g. ``exclude``, to ``model_dump``.

        Settings at their defaults are left out, so a setting that a later version adds does not
        change recorded checksums. Use this for every checksum of settings.
        """
        return sum_json(self.model_dump(mode="json", exclude_defaults=True, **which))


@cache  # so that equal settings are of one class
def _mix(section: type[Section], *mixins: type[Section]) -> type[Section]:
    """Return a section's class, extended by the fields of these mixins."""
    if not mixins:
        return section

    # A mixin's fields come last, so the core's fields have the same order in all records.
    def reduce(self: Section) -> tuple[Any, ...]:
        return _make_empty, (section, *mixins), self.__getstate__()

    facts = {"__doc__": section.__doc__, "__module__": section.__module__, "__reduce__": reduce}
    return type(section.__name__, (*mixins, section), {**facts, "mixins": mixins})


def _make_empty(section: type[Section], *mixins: type[Section]) -> Section:
    """Return an instance of a class that ``_mix`` makes, whose state pickle then sets."""
    made = _mix(section, *mixins)
    return made.__new__(made)


def _find_mixins(section: type[Section], keys: Collection[str]) -> list[type[Section]]:
    """Return the mixins that add any of ``keys`` to a section."""
    unknown = keys - section.model_fields.keys()
    if section.place is None or not unknown:
        return []
    for entries in (registry.entries, registry.all_entries):  # other packages come last
        mixins = _list_mixins(section, entries(f"{section.place} settings").values())
        found = [each for each in mixins if unknown & each.model_fields.keys()]
        if list_fields(found).keys() >= unknown:
            break
    return found


def _list_mixins(section: type[Section], entries: Iterable[registry.Entry]) -> list[type[Section]]:
    fitting = (e for e in entries if "kinds" not in e.facts or kind_of(section) in e.facts["kinds"])
    found = set(registry.load_each(fitting))
    return sorted((each for each in found if not issubclass(section, each)), key=repr)


def list_fields(mixins: Iterable[type[Section]]) -> dict[str, FieldInfo]:
    """Return the fields of all these mixins, keyed by name."""
    return {key: field for each in mixins for key, field in each.model_fields.items()}


def find_owners(section: Section) -> set[str]:
    """Return the names of the extensions that define a section or any section inside it."""
    owners = set(filter(None, map(registry.owner_of, (type(section), *section.mixins))))
    for value in dict(section).values():
        if isinstance(value, Section):
            owners |= find_owners(value)
    return owners


def extend_fully(section: type[Section]) -> type[Section]:
    """Return a section's class with all keys that extensions add."""
    entries = registry.entries(f"{section.place} settings").values()
    return _mix(section, *_list_mixins(section, entries))


def kind_of(section: type[Section]) -> str:
    """Return the value of ``kind`` that a section's class accepts."""
    (kind,) = get_args(section.model_fields["kind"].annotation)
    return str(kind)


class Kinds:
    """The annotation of a section whose class depends on the value of its key ``kind``."""

    def __init__(self, interface: str, *core: type[Section]) -> None:
        """Take the interface through which extensions add kinds, and the classes of the core."""
        self._interface = interface
        self._core = {kind_of(section): section for section in core}

    def __str__(self) -> str:
        """Return the installed kinds as text, e.g. "'a', 'b' or 'c'"."""
        *others, last = map(repr, self.names())
        return f"{', '.join(others)} or {last}" if others else last

    def names(self) -> list[str]:
        """Return the names of the installed kinds."""
        added = registry.entries(self._interface).items()
        return [*self._core, *(name for name, entry in added if "settings" in entry.facts)]

    def find(self, kind: str) -> type[Section] | None:
        """Return the class of a kind, or None if it is not installed."""
        if kind in self._core:
            return self._core[kind]
        entry = registry.find(self._interface, kind)
        return entry.load("settings") if entry and "settings" in entry.facts else None

    def _read(self, value: object) -> Section:
        fields = dict(value) if isinstance(value, Section) else value
        if not isinstance(fields, Mapping):
            raise PydanticKnownError("dict_type")
        if "kind" not in fields:
            raise ValueError(f"kind: missing; choose {self}")
        kind = fields["kind"]
        section = self.find(kind) if isinstance(kind, str) else None
        if section is None:
            hint = did_you_mean(str(kind), self.names())
            found = f"expected {self}, found {describe_value(kind)}"
            raise ValueError(f"kind: {found}; {hint}" if hint else f"kind: {found}")
        return section.model_validate(value)

    def __get_pydantic_core_schema__(self, _: Any, __: GetCoreSchemaHandler) -> CoreSchema:
        """Return a schema that looks up the class of a section, and writes that class's fields."""
        own_fields = core_schema.simple_ser_schema("any")
        return core_schema.no_info_plain_validator_function(self._read, serialization=own_fields)

    def __get_pydantic_json_schema__(
        self, _: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the union of the installed kinds, with all keys that extensions add."""
        sections = (self.find(name) for name in self.names())
        schemas = [extend_fully(each).__pydantic_core_schema__ for each in sections if each]
        return {"oneOf": [handler(schema) for schema in schemas]}


def _read_path(value: object, as_path: Callable[[object], Path]) -> Path:
    if isinstance(value, str):
        try:
            if is_url(path := text_path(value)):
                return path
        except ValueError as error:
            # Not a ValueError: its message would show the value, with its credentials.
            raise PydanticCustomError("refused", "{problem}", {"problem": str(error)}) from None
    path = as_path(value)
    if is_url(path):
        return path
    # Not Path.expanduser, which raises if there is no such user.
    return Path(os.path.expanduser(path)).absolute()  # noqa: PTH111


# Absolute, so that a run finds its files from any working directory. Text may be an object in a
# store; code that needs a file raises an error.
FilePath = Annotated[
    Path,
    Field(strict=False),
    WrapValidator(_read_path),
    # A run's records are the same on Windows.
    PlainSerializer(lambda path: path.as_posix(), return_type=str, when_used="json"),
]
