"""What two configurations do not agree on."""

from collections.abc import Iterator
from dataclasses import dataclass

from transformer_cli.config.schema import Config
from transformer_cli.config.tree import Keys, dotted


@dataclass(frozen=True)
class Difference:
    """A setting with two values, as YAML has them; None is null, or that there is no such key."""

    key: str
    old: object
    new: object


def differences(old: Config, new: Config) -> list[Difference]:
    """The settings that differ, each by its dotted key, in the schema's order."""
    return list(_below((), old.model_dump(mode="json"), new.model_dump(mode="json")))


def _below(keys: Keys, old: object, new: object) -> Iterator[Difference]:
    if not isinstance(old, dict) and not isinstance(new, dict):
        if old != new:
            yield Difference(dotted(keys), old, new)
        return
    old_keys = old if isinstance(old, dict) else {}
    new_keys = new if isinstance(new, dict) else {}
    for name in dict.fromkeys([*old_keys, *new_keys]):
        yield from _below((*keys, name), old_keys.get(name), new_keys.get(name))
