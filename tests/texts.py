"""The texts of an experiment, without checks."""

from transformer_cli.config.data_schema import DataConfig
from transformer_cli.data.corpus import StreamedText, TextStats
from transformer_cli.data.kinds import open_training_text
from transformer_cli.training.preparation import Texts, read_val


def read_texts(data: DataConfig, known: TextStats | None = None) -> Texts:
    """Read the texts; training text as in ``known`` is not read."""
    return read_val(data, StreamedText.of(open_training_text(data), known))
