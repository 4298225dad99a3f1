"""A trained model in the format 'onnx'."""

from pathlib import Path

from transformer_cli.errors import UsageError
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained import Trained


def write_onnx(run: RunDirectory, trained: Trained, directory: Path) -> None:
    """Write the model, its tokenizers and its settings into ``directory``.

    Args:
        run: where the tokenizers' files and the settings lie.
        trained: what was read from it.
        directory: empty.
    """
    raise UsageError("export: --format onnx is not there yet")
