"""Models, trainings and translations by their sums, and what becomes of outdated ones."""

import hashlib
import json
import os.path
from itertools import count
from pathlib import Path

from transformer_cli.config.schema import Config
from transformer_cli.files import sha256
from transformer_cli.runs.checkpoint import MANIFEST, find_checkpoint
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.hub_model import CONFIG as HUB_CONFIG
from transformer_cli.runs.lock import check_unlocked


def weights_record(run: RunDirectory) -> Path:
    """Return the file that has the SHA-256 of a run's best weights."""
    if run.is_hub_model:
        return run.path / HUB_CONFIG
    return find_checkpoint(run.checkpoints, "best") / MANIFEST


def describe_model(run: RunDirectory) -> str:
    """Return the sum of a run's weights and of how it searches."""
    decoding = run.load_config().decoding.model_dump(mode="json")
    return sum_text(sha256(weights_record(run)) + json.dumps(decoding, sort_keys=True))


# Whose bytes count, and not where they lie: a project may be moved.
_PATHS: dict[str, bool | set[str]] = {
    "init": True,
    "data": {"train", "val", "test", "more"},
    "tokenizer": {f"{side}{key}" for side in ("", "src_", "tgt_") for key in ("model", "file")},
}


def describe_training(config: Config) -> dict[str, str]:
    """Return the sums of what a run's weights depend on, but for its text.

    Defaults are left out, so that a setting which a later version adds changes nothing.
    """
    settings = config.model_dump(mode="json", exclude_defaults=True, exclude=_PATHS)
    init = {} if config.init is None else {"init": describe_model(RunDirectory(config.init))}
    files = {f"tokenizer {side}": sha256(path) for side, path in config.tokenizer.files.items()}
    return {"settings": sum_text(json.dumps(settings, sort_keys=True)), **init, **files}


def sum_text(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def discard_translation(output: Path) -> None:
    """Remove a translation, finished or not."""
    for ending in ("", ".partial", ".partial.json", ".partial.json.new"):
        output.with_name(output.name + ending).unlink(missing_ok=True)


def set_aside(run: RunDirectory) -> Path | None:
    """Rename a run, by the first number that is free, and return its new path; None: there is none.

    Raises:
        RunError: it is being written.
    """
    if not run.path.is_dir():
        return None
    check_unlocked(run)
    paths = (run.path.with_name(f"{run.path.name}-{number}") for number in count(1))
    return run.path.rename(next(path for path in paths if not os.path.lexists(path)))
