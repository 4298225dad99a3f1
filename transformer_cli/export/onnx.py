"""A trained model in ONNX, for ONNX Runtime and its kin: an encoder, and one step of a decoder.

Both are traced through the model's own functions. What a decoder keeps between its steps goes in
and out: ONNX has no state.
"""

import copy
import json
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from transformer_cli.compression import write_text
from transformer_cli.config.choices import LONGEST_SOURCE
from transformer_cli.files import sha256
from transformer_cli.model.linear import fused_linears
from transformer_cli.model.transformer import (
    DecoderLayer,
    DecoderState,
    Embedding,
    LayerCache,
    MultiHeadAttention,
    Transformer,
    sinusoids,
)
from transformer_cli.packages import __version__
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import TrainedModel
from transformer_cli.text.reserved import ReservedTokenizers
from transformer_cli.text.tokenizer import copy_tokenizers, load_text_sha256
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID

ENCODER, DECODER, DESCRIPTION = "encoder.onnx", "decoder_step.onnx", "onnx.json"
OPSET = 18
SRC_POSITIONS = LONGEST_SOURCE + 1
"""Sinusoids that the encoder gets: the longest source, and its EOS."""
TGT_POSITIONS = 2 * LONGEST_SOURCE + 10
"""Sinusoids that the decoder gets: with the usual settings, the longest output of that source."""


def write_onnx(run: RunDirectory, trained: TrainedModel, directory: Path) -> None:
    """Write both graphs, their description and the tokenizers into an empty directory."""
    graphs = Graphs(trained.model)
    graphs.write(directory)
    tokenizer = directory / "tokenizer"
    tokenizer.mkdir()
    copy_tokenizers(run.tokenizer, load_text_sha256(run.tokenizer), tokenizer)
    text = json.dumps(_description(trained, graphs, directory), indent=2, ensure_ascii=False)
    write_text(directory / DESCRIPTION, text + "\n")


class Graphs:
    """A model as ONNX graphs.

    Args:
        model: on the CPU; it is copied.
    """

    def __init__(self, model: Transformer) -> None:
        self.model = _traceable(model)
        kept = [
            f"{kind}_{layer}"
            for layer in range(len(self.model.decoder))
            for kind in ("key", "value")
        ]
        self.memory, self.past, self.present = (
            [f"{what}_{name}" for name in kept] for what in ("memory", "past", "present")
        )

    @property
    def positions(self) -> tuple[int, int]:
        """Return the longest source, EOS included, and the longest output of the graphs."""
        sides = (self.model.src_embedding, self.model.tgt_embedding)
        src, tgt = (cast("_Positions", side.positions).table.size(0) for side in sides)
        return src, tgt

    @property
    def inputs(self) -> dict[str, dict[str, list[Any]]]:
        """By file and name: the type and the shape of what goes in."""
        return {
            ENCODER: {"src": ["int64", "batch", "src"]},
            DECODER: {
                "tokens": ["int64", "batch", 1],
                "src_mask": ["bool", "batch", 1, 1, "src"],
                **{name: self._kept("src") for name in self.memory},
                **{name: self._kept("past") for name in self.past},
            },
        }

    @property
    def outputs(self) -> dict[str, dict[str, list[Any]]]:
        """By file and name: the type and the shape of what comes out."""
        return {
            ENCODER: {
                "src_mask": ["bool", "batch", 1, 1, "src"],
                **{name: self._kept("src") for name in self.memory},
            },
            DECODER: {
                "logits": ["float32", "batch", self.model.tgt_size],
                **{name: self._kept("past + 1") for name in self.present},
            },
        }

    def _kept(self, length: str) -> list[Any]:
        attention = cast("DecoderLayer", self.model.decoder[0]).self_attention
        heads = attention.num_heads
        return ["float32", "batch", heads, length, attention.query.out_features // heads]

    def write(self, directory: Path) -> None:
        """Write both: from source ids to what the decoder looks back on, and a decoding step."""
        pad = self.model.pad_id
        src = torch.tensor([[EOS_ID, EOS_ID, EOS_ID], [EOS_ID, pad, pad]])
        encoder = _Encoder(self.model)
        self._write(directory / ENCODER, encoder, (src,))
        src_mask, *memory = encoder(src)
        past = [torch.zeros_like(kept[:, :, :2]) for kept in memory]
        tokens = torch.full((len(src), 1), BOS_ID)
        self._write(
            directory / DECODER, _DecoderStep(self.model), (tokens, src_mask, *memory, *past)
        )

    def _write(self, path: Path, module: nn.Module, example: tuple[Tensor, ...]) -> None:
        inputs, outputs = self.inputs[path.name], self.outputs[path.name]
        axes = {
            name: {axis: size for axis, size in enumerate(shape) if isinstance(size, str)}
            for name, (_, *shape) in (inputs | outputs).items()
        }
        with torch.inference_mode(), warnings.catch_warnings():
            # Torch's newer exporter, which it recommends, takes fifty times as long, and says so.
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module.eval(),
                example,
                str(path),
                input_names=list(inputs),
                output_names=list(outputs),
                dynamic_axes=axes,
                opset_version=OPSET,
                dynamo=False,
            )


class _Encoder(nn.Module):
    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, src: Tensor) -> tuple[Tensor, ...]:
        memory, src_mask = self.model.encode(src)
        layers = cast("Iterable[DecoderLayer]", self.model.decoder)
        kept = [layer.cross_attention.keys_values(memory) for layer in layers]
        return src_mask, *(tensor for keys_values in kept for tensor in keys_values)


class _DecoderStep(nn.Module):
    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, src_mask: Tensor, *kept: Tensor) -> tuple[Tensor, ...]:
        layers = len(self.model.decoder)
        memory, past = kept[: 2 * layers], [each[:, :, :, None] for each in kept[2 * layers :]]
        caches: list[LayerCache] = [
            _GivenCache(memory[at], memory[at + 1], past[at], past[at + 1])
            for at in range(0, 2 * layers, 2)
        ]
        state = DecoderState(src_mask, caches, beam_size=1, position=past[0].size(2))
        # Without the axis of hypotheses, the output layer takes its weights as they lie: in a tied
        # model they are written once.
        logits = self.model.logits(self.model.step(tokens, state)[:, 0])
        present = [each[:, :, :, 0] for cache in caches for each in (cache.keys, cache.values)]
        return logits, *present


class _GivenCache(LayerCache):
    """What went in, longer by one position: it is not written to in place."""

    def write(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        # With a beam of one hypothesis, the axis of positions is the one of hypotheses as well.
        self.keys = torch.cat((self.keys, keys[:, :, :, None]), dim=2)
        self.values = torch.cat((self.values, values[:, :, :, None]), dim=2)
        return self.keys[:, :, :, 0], self.values[:, :, :, 0]


class _Positions(nn.Module):
    """A table that does not grow."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.register_buffer("table", table)
        self.table: Tensor

    def forward(self, start: int, length: int) -> Tensor:
        return self.table[start : start + length]


class _Attention(MultiHeadAttention):
    """Always torch's own attention: which one is faster here may not be so elsewhere."""

    def _use_unfused(self, queries: Tensor) -> bool:
        return False


def _traceable(model: Transformer) -> Transformer:
    """Return an equivalent copy that depends neither on sizes nor on this machine."""
    model = copy.deepcopy(model).float().eval()
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.__class__ = _Attention
    for linear in fused_linears(model):
        linear.use_torch_linear()
    _fix_positions(model.src_embedding, SRC_POSITIONS)
    _fix_positions(model.tgt_embedding, TGT_POSITIONS)
    return model


def _fix_positions(embedding: Embedding, length: int) -> None:
    table = embedding.positions.table
    if not isinstance(table, nn.Parameter):  # learned ones have their end
        table = sinusoids(length, table.size(1))
    embedding.positions = _Positions(table.detach())  # type: ignore[assignment]


def _description(trained: TrainedModel, graphs: Graphs, directory: Path) -> dict[str, Any]:
    """Return the content of onnx.json: what a program needs beside graphs and tokenizers."""
    src_positions, tgt_positions = graphs.positions
    decoding, data, tokenizers = trained.config.decoding, trained.config.data, trained.tokenizers
    reserved = {}
    if isinstance(tokenizers, ReservedTokenizers):
        sides = {"src": tokenizers.src, "tgt": tokenizers.tgt}
        reserved = {"reserved": {name: side.reserved_ids for name, side in sides.items()}}
    return {
        "format": 1,
        "transformer_cli_version": __version__,
        "src_lang": data.src_lang,
        "tgt_lang": data.tgt_lang,
        "lowercase": trained.config.tokenizer.lowercase,
        "ids": {"unk": UNK_ID, "bos": BOS_ID, "eos": EOS_ID, "pad": PAD_ID},
        **reserved,
        "search": {
            "starts_with": BOS_ID,
            "ends_with": EOS_ID,
            "never_written": [UNK_ID, BOS_ID, PAD_ID],
            "source_ends_with": EOS_ID,
            "max_length_ratio": decoding.max_length_ratio,
            "max_length_extra": 10,
            "beam_size": decoding.beam_size,
            "length_penalty": decoding.length_penalty,
        },
        "longest": {"src": src_positions, "tgt": tgt_positions},
        "graphs": {
            name: {
                "inputs": _shown(graphs.inputs[name]),
                "outputs": _shown(graphs.outputs[name]),
                "sha256": sha256(directory / name),
            }
            for name in (ENCODER, DECODER)
        },
    }


def _shown(tensors: dict[str, list[Any]]) -> dict[str, dict[str, Any]]:
    return {name: {"type": kind, "shape": shape} for name, (kind, *shape) in tensors.items()}
