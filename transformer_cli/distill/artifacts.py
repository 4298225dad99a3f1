"""Models and translations by their sums, and their removal."""

import hashlib
import json
from pathlib import Path

from transformer_cli.errors import RunError
from transformer_cli.files import TEMPORARY_MARK, remove_directory, sha256
from transformer_cli.runs import contents
from transformer_cli.runs.checkpoint import MANIFEST
from transformer_cli.runs.checkpoint_directory import find_checkpoint
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


def sum_text(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def discard_translation(output: Path) -> None:
    """Remove a translation, finished or not."""
    for ending in ("", ".partial", ".partial.json", ".partial.json.new"):
        output.with_name(output.name + ending).unlink(missing_ok=True)


def discard_run(run: RunDirectory) -> None:
    """Remove a run.

    Raises:
        RunError: it holds files that are not transformer-cli's, or is being written.
    """
    if not run.path.is_dir():
        return
    check_unlocked(run)
    run.check_no_foreign_files()
    for path in run.path.iterdir():
        if path.name not in contents.ALL and TEMPORARY_MARK not in path.name:
            raise RunError(
                f"{path}: was not written by transformer-cli, and would be deleted; move it "
                "elsewhere"
            )
    remove_directory(run.path)
