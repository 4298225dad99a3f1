"""Differences between configurations."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from transformer_cli.config.schema import Config
from transformer_cli.config.setting_tree import Keys, join_keys


@dataclass(frozen=True)
class Difference:
    """A setting with two values, as YAML has them; None is null, or that there is no such key."""

    key: str
    old: object
    new: object

    def __str__(self) -> str:
        return f"{self.key} was {as_yaml(self.old)}, now {as_yaml(self.new)}"


def as_yaml(value: object) -> str:
    """Return a value as it stands in a message."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def differences(old: Config, new: Config) -> list[Difference]:
    """Return the settings that differ, each by its dotted key, in the schema's order."""
    return [Difference(key, *values) for key, values in differing_settings([old, new]).items()]


def differing_settings(configs: Sequence[Config]) -> dict[str, list[object]]:
    """Return the values of the settings that are not the same in all configurations.

    By the dotted key, in the schema's order; one a configuration, None if there is no such key.
    """
    return dict(_below((), [config.model_dump(mode="json") for config in configs]))


def _below(keys: Keys, values: list[object]) -> Iterator[tuple[str, list[object]]]:
    sections = [value for value in values if isinstance(value, dict)]
    if not sections:
        if any(value != values[0] for value in values):
            yield join_keys(keys), values
        return
    for name in dict.fromkeys(name for section in sections for name in section):
        below = [value.get(name) if isinstance(value, dict) else None for value in values]
        yield from _below((*keys, name), below)


MAY_CHANGE = (
    "data.test.",
    "decoding.",
    "training.epochs",
    "training.max_steps",
    "training.patience",
    "training.keep_last",
    "training.save_every",
    "training.skip_nonfinite",
    "training.accumulate",
)
"""Keys, or how they start, that weights do not depend on, apart from how long to go on.

docs/configuration.md says what each change does.
"""
