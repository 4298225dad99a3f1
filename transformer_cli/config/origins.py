"""Origins of settings: where each was written and what it replaced, kept in a run."""

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from transformer_cli.config.schema import Config
from transformer_cli.config.setting_tree import Node, find_node, iter_leaves, join_keys, values
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
    """Return the origin of each setting that is no default.

    Args:
        config: the settings.
        root: what they were made of.
    """
    found = {}
    for keys, _ in iter_leaves(config.model_dump(mode="json")):
        if node := find_node(root, keys):
            found[join_keys(keys)] = _origin(node)
    return found


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
    """Replace origins in a run's own config.yaml by the origins of that file's settings.

    Args:
        origins: of settings read from ``config``, perhaps.
        config: a run's config.yaml, in which every setting stands.
        earlier: where that has them from; empty if it is not known.
    """
    if not earlier:
        return origins
    past = {key: _past(origin, config, earlier.get(key)) for key, origin in origins.items()}
    return {key: origin for key, origin in past.items() if origin}


def _past(origin: Origin, config: Path, earlier: Origin | None) -> Origin | None:
    if _is_in(config, origin.source):
        return earlier
    replaced: list[Replaced] = []
    for each in origin.replaced:
        if not _is_in(config, each.source):
            replaced.append(each)
        elif earlier:
            # What the command line once said is of no more interest than other --set of one call.
            if earlier.source != SET:
                replaced.append(Replaced(each.value, earlier.source, earlier.line))
            replaced.extend(earlier.replaced)
    return Origin(origin.source, origin.line, tuple(replaced))


def _is_in(file: Path, source: str) -> bool:
    return Path(source).absolute() == file.absolute()
