"""Tiny models like OPUS-MT's, made by transformers, and the results of importing them."""

import io
import json
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from safetensors.torch import save_file
from torch import Tensor

from transformer_cli.config.schema import ModelConfig
from transformer_cli.extensions.exchange.form import ModelFiles, read_form
from transformer_cli.extensions.exchange.run_writer import write_run
from transformer_cli.extensions.exchange.weights import to_transformers
from transformer_cli.model.transformer import Transformer, sinusoids, weights_of
from transformer_cli.runs.directory import RunDirectory

GERMAN = ["Ein Hund läuft über die Straße.", "Zwei Hunde schlafen.", "Der große Bär ruft laut."]
ENGLISH = ["A dog runs across the street.", "Two dogs sleep.", "The big bear calls."]


def learn_pieces(lines: list[str]) -> tuple[bytes, list[str]]:
    """A SentencePiece model like Marian's, and its ordinary pieces."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 10),
        model_writer=model,
        hard_vocab_limit=False,
        minloglevel=2,
        vocab_size=60,
    )
    processor: Any = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return model.getvalue(), [
        processor.id_to_piece(n) for n in range(3, processor.get_piece_size())
    ]


(SRC, SRC_PIECES), (TGT, TGT_PIECES) = learn_pieces(GERMAN), learn_pieces(ENGLISH)


def table(pieces: list[str]) -> dict[str, int]:
    """Ids as in OPUS-MT: EOS first, padding last, and the pieces in any order."""
    tokens = ["</s>", "<unk>", ">>fra<<", "<s>", *sorted(set(pieces), reverse=True), "<pad>"]
    return {token: number for number, token in enumerate(tokens)}


JOINT = table([*SRC_PIECES, *TGT_PIECES])
TWO = table(SRC_PIECES), table(TGT_PIECES)


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def write_tokenizer(directory: Path, two: bool = False) -> None:
    """The tokenizer's files; with ``two`` tables."""
    (directory / "source.spm").write_bytes(SRC)
    (directory / "target.spm").write_bytes(TGT)
    write_json(directory / "vocab.json", TWO[0] if two else JOINT)
    if two:
        write_json(directory / "target_vocab.json", TWO[1])
    write_json(
        directory / "tokenizer_config.json",
        {
            "tokenizer_class": "MarianTokenizer",
            "source_lang": "de",
            "target_lang": "en",
            "separate_vocabs": two,
        },
    )


CONFIG: dict[str, Any] = {
    "model_type": "marian",
    "vocab_size": len(JOINT),
    "d_model": 8,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 12,
    "decoder_ffn_dim": 12,
    "activation_function": "swish",
    "scale_embedding": True,
    "static_position_embeddings": True,
    "normalize_before": False,
    "decoder_start_token_id": JOINT["<pad>"],
    "eos_token_id": JOINT["</s>"],
    "pad_token_id": JOINT["<pad>"],
    "num_beams": 6,
}
"""As OPUS-MT's, which older versions of transformers wrote."""


def make_tensors() -> dict[str, Tensor]:
    """Tensors of ``CONFIG`` with all embeddings tied, under the names of older versions."""
    config = ModelConfig(
        d_model=8, num_heads=2, d_ff=12, num_encoder_layers=1, num_decoder_layers=1, norm="post",
        activation="swish", tying="all",
    )  # fmt: skip
    torch.manual_seed(1)
    weights = weights_of(Transformer(config, len(JOINT), len(JOINT), 0))
    named = {name: each.clone() for name, each in to_transformers(weights, config).items()}
    table = sinusoids(16, 8)
    positions = torch.cat((table[:, ::2], table[:, 1::2]), dim=1)
    return {
        **named,
        "lm_head.weight": named["model.shared.weight"].clone(),
        "model.encoder.embed_positions.weight": positions,
    }


def write_model(directory: Path) -> None:
    """A complete model directory."""
    write_tokenizer(directory)
    write_json(directory / "config.json", CONFIG)
    save_file(make_tensors(), directory / "model.safetensors")


def import_directory(directory: Path, run: Path) -> RunDirectory:
    """Import ``directory`` as the command does."""
    files = ModelFiles(directory)
    form = read_form(files)
    write_run(files, form, ("de", "en"), directory.as_posix(), None, run)
    return RunDirectory(run)
