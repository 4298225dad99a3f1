"""Exports a trained model for transformers, as a MarianMTModel or a Pegasus model."""

from pathlib import Path
from typing import Any

from transformer_cli.base.errors import UsageError
from transformer_cli.base.packages import __version__
from transformer_cli.config.choices import LONGEST_SOURCE
from transformer_cli.config.schema import Config
from transformer_cli.extensions.exchange.card import read_template, write_card
from transformer_cli.extensions.exchange.form import NOT_SHARED, PENALTY_SLOPE
from transformer_cli.extensions.exchange.formats import check_tokenizers, write_json
from transformer_cli.extensions.exchange.weights import to_transformers
from transformer_cli.model.transformer import sinusoids, weights_of
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import TrainedModel
from transformer_cli.text.protocol import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    SPECIALS,
    UNK_ID,
    Tokenizer,
    Tokenizers,
)

_MODELS = {  # in config.json, by place of the normalisation
    "post": ("marian", "MarianMTModel"),
    "pre": ("pegasus", "PegasusForConditionalGeneration"),
}
_POSITIONS = 2 * LONGEST_SOURCE + 10  # the length of the longest output, by default
_SPECIAL_IDS = {
    "bos_token_id": BOS_ID,
    "eos_token_id": EOS_ID,
    "pad_token_id": PAD_ID,
    "decoder_start_token_id": BOS_ID,
    "forced_eos_token_id": None,  # the default is 0 or 1
}


def write_transformers(run: RunDirectory, trained: TrainedModel, directory: Path) -> None:
    """Write the model, its tokenizers and a model card into an empty directory."""
    from safetensors.torch import save

    config, tokenizers = trained.config, trained.tokenizers
    weights = to_transformers(weights_of(trained.model), config.model)
    if config.model.norm == "pre":
        # Pegasus does not compute its position tables when it is loaded.
        halves = sinusoids(_POSITIONS, config.model.d_model).view(_POSITIONS, -1, 2)
        for stack in ("encoder", "decoder"):
            table = halves.transpose(1, 2).flatten(1)
            weights[f"model.{stack}.embed_positions.weight"] = table
    (directory / "model.safetensors").write_bytes(save(weights, metadata={"format": "pt"}))
    write_json(directory / "config.json", _model_config(config, tokenizers))
    penalty = round(config.decoding.length_penalty * PENALTY_SLOPE, 3)
    beam_options = {"early_stopping": True, "length_penalty": penalty}
    write_json(directory / "generation_config.json", _generation_config(config, beam_options))
    _write_tokenizers(config, tokenizers, directory)
    use = read_template("use_transformers.md")
    write_card(run, trained, directory, "transformers", use, length_penalty=penalty)


def check_transformers(config: Config, tokenizers: Tokenizers) -> None:
    """Raise UsageError if transformers does not support the tokenizers or the embeddings."""
    model, sides = config.model, (tokenizers.src, tokenizers.tgt)
    is_supported = all(side.sentencepiece_model is not None for side in sides)
    check_tokenizers("transformers", "MarianTokenizer", is_supported, config, tokenizers)
    obstacles = {
        f"tokenizer: its SentencePiece model has a piece spelled like one of {SPECIALS}; train "
        "with another model": any(len(_vocabulary(side)) < side.size for side in sides),
        f"model.tying: {model.tying}: Pegasus, the model with norm: pre, ties all embeddings; "
        "train with tying: all, or with norm: post": (model.norm == "pre" and model.tying != "all"),
    }
    for obstacle, is_there in obstacles.items():
        if is_there:
            raise UsageError(f"--format transformers: {obstacle}")


def _model_config(config: Config, tokenizers: Tokenizers) -> dict[str, Any]:
    """Return the content of config.json: the model's settings under transformers' names."""
    model, (model_type, architecture) = config.model, _MODELS[config.model.norm]
    vocabularies: dict[str, Any] = {"vocab_size": tokenizers.src.size}
    if model_type == "marian":
        vocabularies["decoder_vocab_size"] = tokenizers.tgt.size
        vocabularies["share_encoder_decoder_embeddings"] = model.tying == "all"
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "transformer_cli_version": __version__,
        "dtype": "float32",
        "is_encoder_decoder": True,
        **vocabularies,
        "tie_word_embeddings": model.tying != "none",
        "max_position_embeddings": _POSITIONS,
        "d_model": model.d_model,
        "encoder_layers": model.num_encoder_layers,
        "decoder_layers": model.num_decoder_layers,
        "encoder_attention_heads": model.num_heads,
        "decoder_attention_heads": model.num_heads,
        "encoder_ffn_dim": model.d_ff,
        "decoder_ffn_dim": model.d_ff,
        "activation_function": model.activation,
        "dropout": model.dropout,
        "attention_dropout": model.attention_dropout,
        "activation_dropout": model.activation_dropout,
        "scale_embedding": True,
        **_SPECIAL_IDS,
    }


def _generation_config(config: Config, beam_options: dict[str, Any]) -> dict[str, Any]:
    """Return the content of generation_config.json: the defaults of transformers' ``generate``."""
    decoding = config.decoding
    longest = int(config.training.max_length * decoding.max_length_ratio) + 10
    return {
        **_SPECIAL_IDS,
        "suppress_tokens": [UNK_ID, BOS_ID, PAD_ID],
        "max_length": min(longest, _POSITIONS) + 1,  # this length includes BOS
        "num_beams": decoding.beam_size,
        # With a beam of 1 they would have no effect, and transformers would warn each time.
        **(beam_options if decoding.beam_size > 1 else {}),
        **decoding.model_dump(exclude=NOT_SHARED, exclude_defaults=True),
    }


def _write_tokenizers(config: Config, tokenizers: Tokenizers, directory: Path) -> None:
    """Write the files that transformers' MarianTokenizer reads."""
    for name, side in {"source": tokenizers.src, "target": tokenizers.tgt}.items():
        assert side.sentencepiece_model is not None, "check_transformers"
        (directory / f"{name}.spm").write_bytes(side.sentencepiece_model)
    is_joint = config.tokenizer.one_vocabulary
    write_json(directory / "vocab.json", _vocabulary(tokenizers.src))
    if not is_joint:
        write_json(directory / "target_vocab.json", _vocabulary(tokenizers.tgt))
    unk, bos, eos, pad = SPECIALS
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": config.data.src_lang,
        "target_lang": config.data.tgt_lang,
        "unk_token": unk,
        "bos_token": bos,
        "eos_token": eos,
        "pad_token": pad,
        "separate_vocabs": not is_joint,
        "model_max_length": LONGEST_SOURCE + 1,  # this length includes EOS
        "split_special_tokens": True,  # '<PAD>' in text stays text
        "clean_up_tokenization_spaces": False,
    }
    write_json(directory / "tokenizer_config.json", settings)


def _vocabulary(tokenizer: Tokenizer) -> dict[str, int]:
    """Return a dict from tokens to ids; if two tokens are spelled alike, it has the last one."""
    return {tokenizer.token(number): number for number in range(tokenizer.size)}
