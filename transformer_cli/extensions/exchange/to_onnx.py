"""Exports a trained model to ONNX as two graphs: an encoder, and one step of a decoder.

Both are traced from the model's own functions. ONNX has no state, so the values that the decoder
keeps between steps are inputs and outputs of its graph.
"""

import copy
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from transformer_cli.base.files import sha256
from transformer_cli.base.packages import __version__
from transformer_cli.config.choices import LONGEST_SOURCE
from transformer_cli.extensions.exchange.formats import write_json, write_tokenizer
from transformer_cli.model import transformer
from transformer_cli.model.linear import FusedLinear, fused_linears
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import TrainedModel
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID, UNK_ID

ENCODER, DECODER, DESCRIPTION = "encoder.onnx", "decoder_step.onnx", "onnx.json"
OPSET = 18
SRC_POSITIONS = LONGEST_SOURCE + 1  # of the encoder: the length of the longest source, plus EOS
TGT_POSITIONS = 2 * LONGEST_SOURCE + 10  # of the decoder: the longest output of that, by default

Tensors = dict[str, list[Any]]  # by a graph's input or output: a list of its type, then its axes


def write_onnx(run: RunDirectory, trained: TrainedModel, directory: Path) -> None:
    """Write both graphs, their description and the tokenizers into an empty directory."""
    model = _traceable(trained.model)
    signatures = _signatures(model)
    src = torch.tensor([[EOS_ID, EOS_ID, EOS_ID], [EOS_ID, model.pad_id, model.pad_id]])
    encoder = _Encoder(model)
    _write_graph(directory / ENCODER, encoder, (src,), *signatures[ENCODER])
    memory = encoder(src)
    past = [torch.zeros_like(kept[:, :, :2]) for kept in memory[1:]]
    example = (torch.full((len(src), 1), BOS_ID), *memory, *past)
    _write_graph(directory / DECODER, _DecoderStep(model), example, *signatures[DECODER])
    write_tokenizer(run, directory)
    graphs = {
        name: {
            "inputs": _describe(inputs),
            "outputs": _describe(outputs),
            "sha256": sha256(directory / name),
        }
        for name, (inputs, outputs) in signatures.items()
    }
    write_json(directory / DESCRIPTION, {**_description(trained, model), "graphs": graphs})


def _signatures(model: transformer.Transformer) -> dict[str, tuple[Tensors, Tensors]]:
    """Return (inputs, outputs) for each graph, keyed by its filename."""
    attention = model.decoder_layers()[0].self_attention
    heads = attention.num_heads

    def kept(what: str, length: str) -> Tensors:
        shape = ["batch", heads, length, attention.query.out_features // heads]
        return {
            f"{what}_{kind}_{layer}": ["float32", *shape]
            for layer in range(len(model.decoder))
            for kind in ("key", "value")
        }

    memory = {"src_mask": ["bool", "batch", 1, 1, "src"], **kept("memory", "src")}
    return {
        ENCODER: ({"src": ["int64", "batch", "src"]}, memory),
        DECODER: (
            {"tokens": ["int64", "batch", 1], **memory, **kept("past", "past")},
            {"logits": ["float32", "batch", model.tgt_size], **kept("present", "past + 1")},
        ),
    }


def _write_graph(
    path: Path, module: nn.Module, example: tuple[Tensor, ...], inputs: Tensors, outputs: Tensors
) -> None:
    axes = {
        name: {axis: size for axis, size in enumerate(shape) if isinstance(size, str)}
        for name, (_, *shape) in (inputs | outputs).items()
    }
    with torch.inference_mode(), warnings.catch_warnings():
        # Torch warns in favour of its newer exporter, which takes fifty times as long.
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
    def __init__(self, model: transformer.Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, src: Tensor) -> tuple[Tensor, ...]:
        memory, src_mask = self.model.encode(src)
        layers = self.model.decoder_layers()
        kept = [layer.cross_attention.keys_values(memory) for layer in layers]
        return src_mask, *(tensor for keys_values in kept for tensor in keys_values)


class _DecoderStep(nn.Module):
    def __init__(self, model: transformer.Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, src_mask: Tensor, *kept: Tensor) -> tuple[Tensor, ...]:
        layers = len(self.model.decoder)
        memory, past = kept[: 2 * layers], [kv[:, :, :, None] for kv in kept[2 * layers :]]
        caches: list[transformer.LayerCache] = [
            _GivenCache(memory[at], memory[at + 1], past[at], past[at + 1])
            for at in range(0, 2 * layers, 2)
        ]
        state = transformer.DecoderState(src_mask, caches, beam_size=1, position=past[0].size(2))
        # Without the axis of hypotheses, the output layer uses its weights without a transpose, so
        # a tied model writes them only once.
        logits = self.model.logits(self.model.step(tokens, state)[:, 0])
        return logits, *(kv[:, :, :, 0] for cache in caches for kv in (cache.keys, cache.values))


class _GivenCache(transformer.LayerCache):
    """A decoder layer's cache that appends by concatenation, instead of writing in place."""

    def write(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        # With a beam of one, the axis of positions is also the axis of hypotheses.
        self.keys = torch.cat((self.keys, keys[:, :, :, None]), dim=2)
        self.values = torch.cat((self.values, values[:, :, :, None]), dim=2)
        return self.keys[:, :, :, 0], self.values[:, :, :, 0]


class _Attention(transformer.MultiHeadAttention):
    """Attention that always uses torch's fused function, whatever is faster on this machine."""

    def _use_unfused(self, queries: Tensor) -> bool:
        return False


class _TorchLinear(FusedLinear):
    """A linear layer that always uses ``F.linear``, which torch's exporters support."""

    def __call__(self, x: Tensor, relu: bool = False) -> Tensor:
        y = nn.functional.linear(x, *self._weights())
        return y.relu() if relu else y


def _traceable(model: transformer.Transformer) -> transformer.Transformer:
    """Return an equivalent model whose trace depends neither on input sizes nor on this machine."""
    model = copy.deepcopy(model).float().eval()
    for module in model.modules():
        if isinstance(module, transformer.MultiHeadAttention):
            module.__class__ = _Attention
    for linear in fused_linears(model):
        linear.__class__ = _TorchLinear
    _fix_positions(model.src_embedding, SRC_POSITIONS)
    _fix_positions(model.tgt_embedding, TGT_POSITIONS)
    return model


def _fix_positions(embedding: transformer.Embedding, length: int) -> None:
    """Give the embedding a table of ``length`` positions, unless it has learned a fixed number."""
    if isinstance(embedding.positions, transformer.SinusoidalPositions):
        table = transformer.sinusoids(length, embedding.positions.d_model)
        embedding.positions = transformer.LearnedPositions(*table.shape)
        embedding.positions.table = nn.Parameter(table)


def _description(trained: TrainedModel, model: transformer.Transformer) -> dict[str, Any]:
    """Return the content of onnx.json: what a program needs besides graphs and tokenizers."""
    decoding, data, tokenizers = trained.config.decoding, trained.config.data, trained.tokenizers
    reserved = {"src": tokenizers.src.reserved_ids, "tgt": tokenizers.tgt.reserved_ids}
    embeddings = {"src": model.src_embedding, "tgt": model.tgt_embedding}
    return {
        "format": 1,
        "transformer_cli_version": __version__,
        "src_lang": data.src_lang,
        "tgt_lang": data.tgt_lang,
        "lowercase": trained.config.tokenizer.lowercase,
        "ids": {"unk": UNK_ID, "bos": BOS_ID, "eos": EOS_ID, "pad": PAD_ID},
        **({"reserved": reserved} if tokenizers.reserved else {}),
        "search": {
            "starts_with": BOS_ID,
            "ends_with": EOS_ID,
            "never_written": [UNK_ID, BOS_ID, PAD_ID, *tokenizers.tgt.source_ids],
            "source_ends_with": EOS_ID,
            **decoding.model_dump(exclude={"batch_tokens"}),
            "max_length_extra": 10,
        },
        # Maximum lengths of the source, including EOS, and of the output.
        "longest": {side: part.positions.table.size(0) for side, part in embeddings.items()},
    }


def _describe(tensors: Tensors) -> dict[str, dict[str, Any]]:
    return {name: {"type": kind, "shape": shape} for name, (kind, *shape) in tensors.items()}
