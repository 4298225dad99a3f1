"""Exports a model for the Hugging Face Hub, in the layout that ``hub_model.py`` describes."""

from pathlib import Path
from typing import Any

from safetensors.torch import save

from transformer_cli.base.errors import UsageError
from transformer_cli.base.files import sha256
from transformer_cli.base.packages import __version__
from transformer_cli.extensions.exchange import hub_model
from transformer_cli.extensions.exchange.card import read_template, write_card
from transformer_cli.extensions.exchange.formats import write_json, write_tokenizer
from transformer_cli.model.transformer import weights_of
from transformer_cli.runs.checkpoint import MODEL
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import TrainedModel
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from transformer_cli.text.tokenizer import fingerprint


def write_hub(run: RunDirectory, trained: TrainedModel, directory: Path) -> None:
    """Write the model, its tokenizers, its settings and a model card into an empty directory."""
    if run.exported:
        raise UsageError(f"{run.path}: already has this format; copy the directory")
    tokenizer = write_tokenizer(run, directory)
    # Other readers of the Hub look for the format in the header. safetensors may make a file that
    # it writes itself readable by its owner only.
    (directory / MODEL).write_bytes(save(weights_of(trained.model), metadata={"format": "pt"}))
    sums = hub_model.FileHashes(weights=sha256(directory / MODEL), tokenizer=fingerprint(tokenizer))
    config = {
        "model_type": hub_model.MODEL_TYPE,
        "architectures": ["Transformer"],
        "format": 1,
        "transformer_cli_version": __version__,
        "dtype": "float32",
        "is_encoder_decoder": True,
        "src_vocab_size": trained.tokenizers.src.size,
        "tgt_vocab_size": trained.tokenizers.tgt.size,
        "pad_token_id": PAD_ID,
        "unk_token_id": UNK_ID,
        "bos_token_id": BOS_ID,
        "eos_token_id": EOS_ID,
        "decoder_start_token_id": BOS_ID,
        "sha256": sums.model_dump(),
        "settings": _without_paths(trained.config.model_dump()),
    }
    write_json(directory / hub_model.CONFIG, config)
    write_card(run, trained, directory, "transformer-cli", read_template("use_hub.md"))


def _without_paths(setting: Any) -> Any:
    """Return settings with paths shortened to filenames, and without checksums of fetched files."""
    match setting:
        case Path():
            return setting.name
        case dict():
            return {
                key: _without_paths(value)
                for key, value in setting.items()
                if not (key == "sha256" and isinstance(value, list))
            }
        case list() | tuple():
            return [_without_paths(value) for value in setting]
    return setting
