"""Origins of settings: where each was written and what it replaced, kept in a run."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticUndefined

from transformer_cli.config.schema import Config
from transformer_cli.config.setting_tree import (
    Node,
    find_node,
    iter_leaves,
    join_keys,
    values,
)
from transformer_cli.files import read_small

SET = "--set"
"""The source of what the command line changes."""


@dataclass(frozen=True)
class Replaced:
    """A value, as YAML has it, that another one took the place of."""

    value: object
    source: str
    line: int

    def __str__(self) -> str:
        return f"{self.source}:{self.line}"


@dataclass(frozen=True)
class Origin:
    """Where a setting was written.

    Attributes:
        source: a file's path as it was given, or "--set".
        line: of the file, from 1; 0 of "--set".
        replaced: what bases have said of the setting, the nearest base first.
    """

    source: str
    line: int
    replaced: tuple[Replaced, ...] = ()

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


Origins = dict[str, Origin]
"""By dotted key; settings at their defaults have none."""


@dataclass(frozen=True)
class _Kept:
    """What a run's origins.json holds: the sum is that of the config.yaml it belongs to."""

    config_sha256: str
    origins: Origins


_KEPT = TypeAdapter(_Kept)


def origins_of(config: Config, root: Node) -> Origins:
    """Return the origin of each of the settings that ``root``, what they were made of, has."""
    return {
        join_keys(keys): _origin(node)
        for keys, _ in iter_leaves(config.model_dump(mode="json"))
        if (node := find_node(root, keys))
    }


def _origin(node: Node) -> Origin:
    replaced = []
    below = node.replaced
    while below is not None:
        source, line = _written(below)
        if source != SET:
            replaced.append(Replaced(values(below), source, line))
        below = below.replaced
    return Origin(*_written(node), tuple(replaced))


def _written(node: Node) -> tuple[str, int]:
    # The place of a --set is the whole of it, key and value.
    return node.place.source if node.place.line else SET, node.place.line


def dump_origins(origins: Origins, config_text: str) -> str:
    """Return the JSON text of ``origins``, which belong to the settings of ``config_text``."""
    kept = _Kept(sha256(config_text.encode()).hexdigest(), origins)
    text = json.dumps(asdict(kept), ensure_ascii=False, indent=1) + "\n"
    # A file's name need not be text.
    return text.encode("utf-8", "replace").decode()


def load_origins(path: Path) -> Origins:
    """Read a run's origins.json.

    Returns:
        empty where it is missing, damaged, or of other settings than the config.yaml beside it: a
        run is as good without.
    """
    try:
        kept = _KEPT.validate_json(read_small(path), strict=True)
        config_text = read_small(path.with_name("config.yaml"))
    except (OSError, ValidationError):
        return {}
    return kept.origins if kept.config_sha256 == sha256(config_text).hexdigest() else {}


def trace_origins(origins: Origins, config: Path, earlier: Origins) -> Origins:
    """Replace origins in a run's own config.yaml by those of that file's settings, if known."""
    if not earlier:
        return origins
    past = {key: _past(origin, config, earlier.get(key)) for key, origin in origins.items()}
    return {key: origin for key, origin in past.items() if origin}


def _past(origin: Origin, config: Path, earlier: Origin | None) -> Origin | None:
    if _is_in(config, origin.source):
        return earlier
    replaced: list[Replaced] = []
    for old in origin.replaced:
        if not _is_in(config, old.source):
            replaced.append(old)
        elif earlier:
            # What the command line once said is of no more interest than other --set of one call.
            if earlier.source != SET:
                replaced.append(Replaced(old.value, earlier.source, earlier.line))
            replaced.extend(earlier.replaced)
    return Origin(origin.source, origin.line, tuple(replaced))


def _is_in(file: Path, source: str) -> bool:
    return Path(source).absolute() == file.absolute()


class Setting(NamedTuple):
    """A setting that is not as it would be if nobody had said anything."""

    key: str
    value: object
    instead_of: object
    """The value that it has in the base, or else by default."""
    required: bool
    """Whether there is neither, as it has to be given."""
    origin: str | None
    """Where it was written: a file and line, or --set; None: that is not known."""
    base: str | None
    """The file and line of ``instead_of``; None: it is the default."""


def chosen_settings(config: Config, origins: Origins) -> list[Setting]:
    """Return the settings that differ from a base or from the default, in the schema's order."""
    chosen = []
    for key, value, default in _all("", config, config.model_dump(mode="json")):
        origin = origins.get(key)
        replaced = origin.replaced[0] if origin and origin.replaced else None
        required = default is PydanticUndefined and replaced is None
        instead_of = replaced.value if replaced else None if required else default
        if required or value != instead_of:
            where = (str(origin) if origin else None, str(replaced) if replaced else None)
            chosen.append(Setting(key, value, instead_of, required, *where))
    return chosen


def _all(
    prefix: str, section: BaseModel, values: dict[str, object]
) -> Iterator[tuple[str, object, object]]:
    """Yield each setting's dotted key, its value as YAML has it, and its default."""
    for name, field in type(section).model_fields.items():
        if name not in values:  # a source's default
            continue
        value, plain = getattr(section, name), values[name]
        if isinstance(value, BaseModel) and isinstance(plain, dict):
            yield from _all(f"{prefix}{name}.", value, plain)
            continue
        if isinstance(value, dict) and isinstance(plain, dict):
            for key, split in value.items():
                yield from _all(f"{prefix}{name}.{key}.", split, plain[key])
            continue
        default = field.get_default(call_default_factory=True)
        if isinstance(plain, list) and isinstance(default, tuple):
            default = list(default)
        yield prefix + name, plain, default
