"""A trained model in the format 'hub'."""

from pathlib import Path

from transformer_cli.errors import UsageError
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained import Trained


def write_hub(run: RunDirectory, trained: Trained, directory: Path) -> None:
    """Write the model, its tokenizers and its settings into ``directory``.

    Args:
        run: where the tokenizers' files and the settings lie.
        trained: what was read from it.
        directory: empty.
    """
    raise UsageError("export: --format hub is not there yet")
