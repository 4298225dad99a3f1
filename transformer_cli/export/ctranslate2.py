"""A trained model as CTranslate2 reads it."""

from pathlib import Path

from transformer_cli.config.choices import Quantization
from transformer_cli.errors import UsageError
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained import Trained


def write_ctranslate2(
    run: RunDirectory, trained: Trained, quantization: Quantization, directory: Path
) -> None:
    """Write the model, its tokenizers and its settings into ``directory``.

    Args:
        run: where the tokenizers' files and the settings lie.
        trained: what was read from it.
        quantization: type of the weights.
        directory: empty.
    """
    raise UsageError("export: --format ctranslate2 is not there yet")
