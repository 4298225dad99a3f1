"""A trained model as a directory that CTranslate2 reads."""

from pathlib import Path

from transformer_cli.compression import write_text
from transformer_cli.config.choices import Quantization
from transformer_cli.config.yaml import dump_config
from transformer_cli.inference.converted import write_sums
from transformer_cli.inference.ctranslate2_engine import SETTINGS
from transformer_cli.inference.ctranslate2_spec import write_model
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import TrainedModel
from transformer_cli.text.tokenizer import copy_tokenizers, load_text_sha256


def write_ctranslate2(
    run: RunDirectory, trained: TrainedModel, quantization: Quantization, directory: Path
) -> None:
    """Write the model, its tokenizers and its settings into ``directory``.

    Args:
        run: where the tokenizers' files lie.
        trained: what was read from it.
        quantization: type of the weights; sums stay float32 with int8 and int16.
        directory: empty.

    Raises:
        MissingExtraError: CTranslate2 is not installed.
    """
    write_model(trained, quantization, directory)
    write_sums(directory)
    write_text(directory / SETTINGS, dump_config(trained.config))
    tokenizer = RunDirectory(directory).tokenizer
    tokenizer.mkdir()
    copy_tokenizers(run.tokenizer, load_text_sha256(run.tokenizer), tokenizer)
