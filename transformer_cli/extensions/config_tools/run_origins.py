"""A run's record of where its settings were written, before the run had its own copy of them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from transformer_cli.base.files import read_small
from transformer_cli.base.messages import log
from transformer_cli.base.text_files import write_text
from transformer_cli.config import setting_tree as tree
from transformer_cli.config.schema import Config
from transformer_cli.config.yaml import SET, dump_config
from transformer_cli.extensions.config_tools.origins import Origins, Written, find_origins
from transformer_cli.runs.directory import CONFIG, RunDirectory

RECORD = "origins.json"


@dataclass(frozen=True)
class _Kept:
    """What a run's origins.json holds: the sum is that of the config.yaml it belongs to."""

    config_sha256: str
    origins: Origins


_KEPT = TypeAdapter(_Kept)


def begin_record(run: RunDirectory, config: Config, root: tree.Node) -> Callable[[], None]:
    """Find where settings come from; return what records it in the run, if that has no record."""
    origins = trace_origins(find_origins(config, root), run.config, load_origins(run.path))

    def record() -> None:
        if origins and not load_origins(run.path):  # those of the first session are kept
            write_text(run.path / RECORD, dump_origins(origins, dump_config(config)))

    return record


def dump_origins(origins: Origins, config_text: str) -> str:
    """Return the JSON text of ``origins``, which belong to the settings of ``config_text``."""
    kept = _Kept(sha256(config_text.encode()).hexdigest(), origins)
    text = json.dumps(asdict(kept), ensure_ascii=False, indent=1) + "\n"
    # A file's name need not be text.
    return text.encode("utf-8", "replace").decode()


def load_origins(run: Path) -> Origins:
    """Read a run's origins.json; empty if it is damaged, or not of the config.yaml beside it."""
    try:
        kept = _KEPT.validate_json(read_small(run / RECORD), strict=True)
        config_text = read_small(run / CONFIG)
    except (OSError, ValidationError):
        return {}
    return kept.origins if kept.config_sha256 == sha256(config_text).hexdigest() else {}


def trace_run(origins: Origins, run: RunDirectory) -> Origins:
    """Replace origins in a run's own config.yaml by those that are recorded, if they are."""
    earlier = load_origins(run.path)
    if not earlier:
        log(f"{run.path}: where its settings come from is not known (no {RECORD})")
    return trace_origins(origins, run.config, earlier)


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
