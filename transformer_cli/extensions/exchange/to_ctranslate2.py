"""Exports a trained model for CTranslate2, with a model card that explains its use."""

from pathlib import Path

from transformer_cli.base.text_files import write_text
from transformer_cli.config.choices import Quantization
from transformer_cli.config.yaml import dump_config
from transformer_cli.extensions.ctranslate2.exported_models import SETTINGS, write_sums
from transformer_cli.extensions.ctranslate2.spec import write_model
from transformer_cli.extensions.exchange.card import read_template, write_card
from transformer_cli.extensions.exchange.formats import write_tokenizer
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import TrainedModel

_LOWERCASED = "The model was trained on lowercased text: lowercase the source first.\n"


def write_ctranslate2(
    run: RunDirectory, trained: TrainedModel, directory: Path, quantization: Quantization
) -> None:
    """Write the model, its tokenizers, its settings and a model card into an empty directory."""
    # Users of CTranslate2 alone do not know the tags.
    write_model(trained, quantization, directory, never_written=trained.tokenizers.tgt.source_ids)
    write_sums(directory)
    write_text(directory / SETTINGS, dump_config(trained.config))
    is_joint = (write_tokenizer(run, directory) / "joint.model").is_file()
    src, tgt = ("joint", "joint") if is_joint else ("src", "tgt")
    config = trained.config.tokenizer
    uses = [read_template("use_transformer_cli.md")]
    has_models = config.kind in ("sentencepiece", "sentencepiece_file")
    if has_models and not trained.tokenizers.reserved:  # otherwise users need this program
        lowercased = [_LOWERCASED] if config.lowercase else []
        uses = [read_template("use_ctranslate2.md"), *lowercased, *uses]
    named = {"src_model": f"{src}.model", "tgt_model": f"{tgt}.model"}
    write_card(run, trained, directory, "ctranslate2", "\n".join(uses), **named)
