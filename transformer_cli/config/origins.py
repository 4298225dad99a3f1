"""Origins of settings: where each was written and what it replaced, kept in a run."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from transformer_cli.base.files import read_small

SET = "--set"  # the source of what the command line changes


@dataclass(frozen=True)
class Written:
    """A value of a setting, as YAML has it, and where it was written."""

    value: object
    source: str  # a file's path as it was given, or "--set"
    line: int  # from 1; 0 with "--set"

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


Origins = dict[str, Annotated[tuple[Written, ...], Field(min_length=1)]]
"""By dotted key: what counts, then what bases have said, the nearest first; defaults have none."""


@dataclass(frozen=True)
class _Kept:
    """What a run's origins.json holds: the sum is that of the config.yaml it belongs to."""

    config_sha256: str
    origins: Origins


_KEPT = TypeAdapter(_Kept)


def dump_origins(origins: Origins, config_text: str) -> str:
    """Return the JSON text of ``origins``, which belong to the settings of ``config_text``."""
    kept = _Kept(sha256(config_text.encode()).hexdigest(), origins)
    text = json.dumps(asdict(kept), ensure_ascii=False, indent=1) + "\n"
    # A file's name need not be text.
    return text.encode("utf-8", "replace").decode()


def load_origins(path: Path) -> Origins:
    """Read a run's origins.json; empty if it is damaged, or not of the config.yaml beside it."""
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
    traced = {key: _trace(history, config, earlier.get(key)) for key, history in origins.items()}
    return {key: history for key, history in traced.items() if history}


def _trace(
    history: Sequence[Written], config: Path, earlier: Sequence[Written] | None
) -> tuple[Written, ...]:
    traced: list[Written] = []
    for written in history:
        if Path(written.source).absolute() != config.absolute():
            traced.append(written)
        elif earlier:
            latest = replace(earlier[0], value=written.value)
            traced += [one for one in (latest, *earlier[1:]) if not traced or one.source != SET]
    return tuple(traced)
