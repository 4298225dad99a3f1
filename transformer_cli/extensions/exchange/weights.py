"""Converts weights between transformers' names and ours; reads and checks weight files.

MarianMTModel and PegasusForConditionalGeneration have the same layers as our model. They differ
from it and from each other in these points:

- Marian normalises after each sublayer, Pegasus before it.
- In both, the first half of a position's vector has all sines and the second half all cosines. In
  Vaswani et al. (2017) and here, they alternate. So weights that read or write the residual stream
  are permuted along d_model, which changes logits only by rounding.
- The output layer's bias is called ``final_logits_bias`` and has the shape (1, ids).
"""

import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from transformer_cli.base.child import PYTHON, environment
from transformer_cli.base.messages import log
from transformer_cli.config.schema import ModelConfig
from transformer_cli.extensions.exchange import torch_child
from transformer_cli.extensions.exchange.form import (
    CONFIG,
    SAFETENSORS,
    TORCH,
    ModelFiles,
    ModelForm,
)
from transformer_cli.model.transformer import build_shapes, sinusoids, weights_of

_PARTS = {  # of a layer
    "self_attention.query": "self_attn.q_proj",
    "self_attention.key": "self_attn.k_proj",
    "self_attention.value": "self_attn.v_proj",
    "self_attention.output": "self_attn.out_proj",
    "around_self_attention.norm": "self_attn_layer_norm",
    "cross_attention.query": "encoder_attn.q_proj",
    "cross_attention.key": "encoder_attn.k_proj",
    "cross_attention.value": "encoder_attn.v_proj",
    "cross_attention.output": "encoder_attn.out_proj",
    "around_cross_attention.norm": "encoder_attn_layer_norm",
    "feed_forward.inner": "fc1",
    "feed_forward.outer": "fc2",
    "around_feed_forward.norm": "final_layer_norm",
}
_SRC, _TGT, _OUTPUT = "src_embedding.tokens.weight", "tgt_embedding.tokens.weight", "output.weight"
_BIAS = "output.bias"
SHARED, BIAS_ROW = "model.shared.weight", "final_logits_bias"
EMBEDDINGS = {
    _SRC: "model.encoder.embed_tokens.weight",
    _TGT: "model.decoder.embed_tokens.weight",
    _OUTPUT: "lm_head.weight",
}
_MAX_REST = 1 << 27  # bytes of a file besides the weights: names and tables of positions
_MAX_HEADER = 1 << 23  # bytes: names, types and shapes, which take up to 30 times as much memory
_POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
_FLOATS = {torch.float64, torch.float32, torch.float16, torch.bfloat16}
_OPTIONAL = {*EMBEDDINGS.values(), SHARED, BIAS_ROW}  # other tensors of a file may replace these
Shapes = dict[str, tuple[int, ...]]


def to_transformers(weights: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """Return weights from ``weights_of`` under transformers' names; tied ones occur only once."""
    # Even columns first: sines, then cosines.
    order = torch.arange(config.d_model).view(-1, 2).T.flatten()
    named = {theirs: _permute(weights[ours], axis, order) for ours, theirs, axis in _pairs(config)}
    embeddings = {_SRC: SHARED} if config.tying == "all" else EMBEDDINGS
    for ours, theirs in embeddings.items():
        if ours in weights:
            named[theirs] = _permute(weights[ours], 1, order)
    return {**named, BIAS_ROW: weights[_BIAS][None].clone()}


def from_transformers(tensors: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """Return weights from transformers under our names; tied ones occur only once.

    If ``final_logits_bias`` is missing, it is zero; if an embedding is missing, the shared one is
    used. A KeyError names any other missing tensor.
    """
    order = torch.arange(config.d_model).view(2, -1).T.flatten()  # alternates sines and cosines
    weights = {
        ours: _permute(tensors[theirs], axis, order) for ours, theirs, axis in _pairs(config)
    }
    names = {"all": (_SRC,), "output": (_SRC, _TGT), "none": (_SRC, _TGT, _OUTPUT)}[config.tying]
    for name in names:
        weights[name] = _permute(find_embedding(tensors, name), 1, order)
    rows = find_embedding(tensors, _TGT).size(0)
    bias = tensors.get(BIAS_ROW)
    weights[_BIAS] = torch.zeros(rows) if bias is None else bias[0].clone()
    return weights


def take_rows(
    weights: Mapping[str, Tensor], src_rows: Sequence[int], tgt_rows: Sequence[int]
) -> dict[str, Tensor]:
    """Return weights for new token ids: row n is the old row ``src_rows[n]`` or ``tgt_rows[n]``."""
    rows = {_SRC: src_rows, _TGT: tgt_rows, _OUTPUT: tgt_rows, _BIAS: tgt_rows}
    return {
        name: weight.index_select(0, torch.tensor(rows[name])) if name in rows else weight
        for name, weight in weights.items()
    }


def find_embedding(tensors: Mapping[str, Tensor], name: str) -> Tensor:
    """Return the tensor of our embedding ``name``, stored under its own name or as a shared one."""
    own = tensors.get(EMBEDDINGS[name])
    if own is None and name == _OUTPUT:
        own = tensors.get(EMBEDDINGS[_TGT])
    return own if own is not None else tensors[SHARED]


def find_tying(tensors: Mapping[str, Tensor]) -> Literal["none", "output", "all"]:
    """Return ``model.tying`` for the embeddings with equal values, whatever their names are."""
    src, tgt, output = (find_embedding(tensors, name) for name in (_SRC, _TGT, _OUTPUT))
    if not torch.equal(tgt, output):
        return "none"
    return "all" if torch.equal(src, tgt) else "output"


def _pairs(config: ModelConfig) -> Iterator[tuple[str, str, int | None]]:
    """Yield (our name, transformers' name, axis of d_model) for all but embeddings and output.

    The axis is the one of the residual stream, or None if the weight neither reads nor writes it.
    """
    stacks = {"encoder": config.num_encoder_layers, "decoder": config.num_decoder_layers}
    for stack, layers in stacks.items():
        names = {
            f"{stack}.{number}.{ours}": f"model.{stack}.layers.{number}.{theirs}"
            for number in range(layers)
            for ours, theirs in _PARTS.items()
            if stack == "decoder" or "cross_attention" not in ours
        }
        if config.norm == "pre":
            names[f"{stack}_norm"] = f"model.{stack}.layer_norm"
        for ours, theirs in names.items():
            writes_stream = ours.endswith(("norm", "output", "outer"))
            yield f"{ours}.weight", f"{theirs}.weight", 0 if writes_stream else 1
            yield f"{ours}.bias", f"{theirs}.bias", 0 if writes_stream else None


def _permute(tensor: Tensor, axis: int | None, order: Tensor) -> Tensor:
    return tensor.clone() if axis is None else tensor.index_select(axis, order)


# --- tensors of a file ----------------------------------------------------------------------------


def read_tensors(files: ModelFiles, form: ModelForm) -> dict[str, Tensor]:
    """Read and check a model's tensors, in float32; print a note if PyTorch saved them."""
    shapes = _find_shapes(form)
    # Refuse a file larger than any such model before it takes memory.
    max_size = 8 * sum(map(prod, shapes.values())) + _MAX_REST
    if files.has(SAFETENSORS):
        name, data = SAFETENSORS, files.read(SAFETENSORS, max_size)
    elif files.has(TORCH):
        log(f"{TORCH}: read without running code, as tensors only")
        name, data = TORCH, _convert(files, max_size)
    else:
        problem = f"missing, as is {TORCH}; if the weights are split, merge them with transformers"
        raise files.error(SAFETENSORS, problem)
    tensors = _load(files, name, data, shapes)
    needed = shapes.keys() - _OPTIONAL
    if SHARED not in tensors and not tensors.keys() >= set(list(EMBEDDINGS.values())[:2]):
        needed.add(SHARED)
    if missing := needed - tensors.keys():
        raise files.error(name, f"lacks the tensor {min(missing)}")
    for positions in _POSITIONS:
        if (table := tensors.pop(positions, None)) is not None:
            ours = sinusoids(*table.shape)
            halves = torch.cat((ours[:, ::2], ours[:, 1::2]), dim=1)
            if not torch.allclose(halves, table, atol=2e-3):  # the table may have half precision
                problem = f"{positions}: is not a table of sinusoids, which our models need"
                raise files.error(CONFIG, problem)
    return tensors


def _find_shapes(form: ModelForm) -> Shapes:
    """Return the shapes of all tensors, except positions, that the model's file may have."""
    model = build_shapes(form.model, form.src_size, form.tgt_size, form.pad_id)
    with torch.device("meta"):
        named = to_transformers(weights_of(model), form.model)
    shapes = {name: tuple(tensor.shape) for name, tensor in named.items()}
    return {**shapes, SHARED: (form.src_size, form.d_model)}


def _convert(files: ModelFiles, max_size: int) -> bytes:
    """Convert a file from torch.save to safetensors in another process; return the new bytes."""
    with (
        tempfile.TemporaryFile() as file,
        tempfile.TemporaryDirectory(prefix="transformer-cli-") as directory,
    ):
        file.write(files.read(TORCH, max_size))
        file.seek(0)
        out = Path(directory) / SAFETENSORS
        # The process holds the file, copies of its tensors, and their bytes.
        command = [*PYTHON, torch_child.__file__, str(out), str(3 * max_size)]
        done = subprocess.run(
            command, stdin=file, capture_output=True, text=True, env=environment(), check=False
        )
        if done.returncode:  # negative if a limit has ended the process
            raise files.error(TORCH, done.stdout.strip() or torch_child.TOO_MUCH)
        return out.read_bytes()


def _load(files: ModelFiles, name: str, data: bytes, shapes: Shapes) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file; check their names and shapes."""
    try:
        if int.from_bytes(data[:8], "little") > _MAX_HEADER:
            raise ValueError(f"a header of more than {_MAX_HEADER >> 20} MiB")
        tensors = load(data)
    # The last two are for shapes with more dimensions or larger numbers than torch allows.
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise files.error(name, f"is not a safetensors file, or damaged ({reason})") from None
    for key, tensor in sorted(tensors.items()):
        shape, width = tuple(tensor.shape), shapes[SHARED][1]
        expected = shapes.get(key)
        if key in _POSITIONS:  # any number of rows, if there is memory to compare them
            rows = shape[0] if shape else 0
            expected = (min(max(1, rows), _MAX_REST // 16 // width), width)
        if expected is None:
            raise files.error(name, f"has the tensor {key[:80]!r}, which our models do not have")
        if shape != expected:
            problem = f"{key} has the shape {str(shape)[:60]}, but {CONFIG} says {expected}"
            raise files.error(name, problem)
        if tensor.dtype not in _FLOATS:
            raise files.error(name, f"{key} has the type {tensor.dtype}, not float32")
        if not tensor.isfinite().all():
            raise files.error(name, f"{key} has infinite or NaN values")
    return {key: tensor.float() for key, tensor in tensors.items()}
