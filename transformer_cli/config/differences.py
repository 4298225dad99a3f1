"""Find the settings that differ between configs, for comparing runs and for resuming one."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pydantic_core import to_jsonable_python

from transformer_cli.config.schema import Config
from transformer_cli.config.sections import Section, list_fields
from transformer_cli.config.setting_tree import Keys, join_keys


@dataclass(frozen=True)
class Difference:
    """A setting whose values, as in YAML, differ in two configs; None means null or missing."""

    key: str
    old: object
    new: object
    may_change: bool = field(default=False, compare=False)
    may_differ: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.key} was {as_yaml(self.old)}, now {as_yaml(self.new)}"


def as_yaml(value: object) -> str:
    """Return a value formatted as YAML, for messages."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def differences(old: Config, new: Config) -> list[Difference]:
    """Return the settings that differ between two configs, in the order of the schema."""
    found = []
    for keys, (before, now) in iter_differing([old, new]):
        facts = {*_facts(old, keys), *_facts(new, keys)}
        marks = "may_change" in facts, "may_differ" in facts
        found.append(Difference(join_keys(keys), before, now, *marks))
    return found


def iter_differing(configs: Sequence[Config]) -> Iterator[tuple[Keys, list[object]]]:
    """Yield the path of each setting that is not the same in all configs, in the schema's order.

    With it comes a list of the value in each config, or None if a config has no such key.
    """
    records = [config.model_dump(mode="json") for config in configs]
    # A record lacks an extension's key if it has its default value.
    for place, section in (each for config in configs for each in config):
        added = list_fields(section.mixins) if isinstance(section, Section) else {}
        for key, added_field in added.items():
            for record in records:
                record[place].setdefault(key, to_jsonable_python(added_field.get_default()))
    return _below((), records)


def _below(keys: Keys, values: Sequence[object]) -> Iterator[tuple[Keys, list[object]]]:
    # Lists of sections are compared section by section, if none was added or removed.
    lists = [value for value in values if isinstance(value, list)]
    are_alike = len(lists) == len(values) and len({len(each) for each in lists}) == 1
    if are_alike and all(isinstance(item, dict) for each in lists for item in each):
        values = [dict(enumerate(each)) for each in lists]
    sections = [value for value in values if isinstance(value, dict)]
    if not sections:
        if any(value != values[0] for value in values):
            yield keys, list(values)
        return
    for name in dict.fromkeys(name for section in sections for name in section):
        below = [value.get(name) if isinstance(value, dict) else None for value in values]
        yield from _below((*keys, name), below)


def _facts(config: Config, keys: Keys) -> Iterator[str]:
    """Yield the flags, e.g. ``may_change``, of the setting at ``keys`` and sections around it."""
    section: object = config
    for key in keys:
        if not isinstance(section, Section) or key not in type(section).model_fields:
            return
        extra = type(section).model_fields[str(key)].json_schema_extra
        yield from extra if isinstance(extra, dict) else ()
        section = getattr(section, str(key))
