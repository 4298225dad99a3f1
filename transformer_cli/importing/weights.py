"""Weights by the names of transformers, and back.

MarianMTModel and PegasusForConditionalGeneration are made of what our model is made of. They
differ from it, and from each other, in these points:

- Marian normalises after each sublayer, Pegasus before it.
- Both have all sines of a position in the first half of its vector and all cosines in the second,
  where the paper's, and ours, alternate. So all that reads or writes the residual stream is
  permuted along d_model, which changes no logit but by rounding.
- The output layer's bias is called ``final_logits_bias``, and is a row.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from transformer_cli.config.schema import ModelConfig

# ``model_type`` in transformers' config.json, by where the model normalises.
MODEL_TYPES = {"post": "marian", "pre": "pegasus"}
# Which axes of a tensor are d_model, the residual stream.
Axes = tuple[int, ...]
_ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
_FEED_FORWARD = {"inner": "fc1", "outer": "fc2"}
_SRC, _TGT, _OUTPUT = "src_embedding.tokens.weight", "tgt_embedding.tokens.weight", "output.weight"
_BIAS = "output.bias"
SHARED, BIAS_ROW = "model.shared.weight", "final_logits_bias"
EMBEDDINGS = {
    _SRC: "model.encoder.embed_tokens.weight",
    _TGT: "model.decoder.embed_tokens.weight",
    _OUTPUT: "lm_head.weight",
}


def to_transformers(weights: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """Return our weights, as of ``weights_of``, by transformers' names, tied ones once."""
    # Even columns first: sines, then cosines.
    order = torch.arange(config.d_model).view(-1, 2).T.flatten()
    named = {theirs: _permute(weights[ours], axes, order) for ours, theirs, axes in _pairs(config)}
    embeddings = {_SRC: SHARED} if config.tying == "all" else EMBEDDINGS
    for ours, theirs in embeddings.items():
        if ours in weights:
            named[theirs] = _permute(weights[ours], (1,), order)
    return {**named, BIAS_ROW: weights[_BIAS][None].clone()}


def from_transformers(tensors: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """Return transformers' weights by our names, tied ones once; KeyError names a missing one.

    A missing ``final_logits_bias`` is zero, and missing embeddings are the shared ones.
    """
    order = torch.arange(config.d_model).view(2, -1).T.flatten()  # sines and cosines by turns
    weights = {
        ours: _permute(tensors[theirs], axes, order) for ours, theirs, axes in _pairs(config)
    }
    names = {"all": (_SRC,), "output": (_SRC, _TGT), "none": (_SRC, _TGT, _OUTPUT)}[config.tying]
    for name in names:
        weights[name] = _permute(find_embedding(tensors, name), (1,), order)
    rows = find_embedding(tensors, _TGT).size(0)
    bias = tensors.get(BIAS_ROW)
    weights[_BIAS] = torch.zeros(rows) if bias is None else bias[0].clone()
    return weights


def take_rows(
    weights: Mapping[str, Tensor], src_rows: Sequence[int], tgt_rows: Sequence[int]
) -> dict[str, Tensor]:
    """Return our weights with other ids: row n of a table is row ``src_rows[n]`` of the given one.

    ``tgt_rows`` are equal to ``src_rows`` if all embeddings are tied.
    """
    rows = {_SRC: src_rows, _TGT: tgt_rows, _OUTPUT: tgt_rows, _BIAS: tgt_rows}
    return {
        name: weight.index_select(0, torch.tensor(rows[name])) if name in rows else weight
        for name, weight in weights.items()
    }


def find_embedding(tensors: Mapping[str, Tensor], name: str) -> Tensor:
    """Return the tensor of one of our three embeddings, by its own name or the shared one's."""
    own = tensors.get(EMBEDDINGS[name])
    if own is None and name == _OUTPUT:
        own = tensors.get(EMBEDDINGS[_TGT])
    return own if own is not None else tensors[SHARED]


def find_tying(tensors: Mapping[str, Tensor]) -> Literal["none", "output", "all"]:
    """Return which embeddings are the same, whichever names they are stored by."""
    src, tgt, output = (find_embedding(tensors, name) for name in (_SRC, _TGT, _OUTPUT))
    if not torch.equal(tgt, output):
        return "none"
    return "all" if torch.equal(src, tgt) else "output"


def _pairs(config: ModelConfig) -> Iterator[tuple[str, str, Axes]]:
    """Yield (our name, theirs, axes along d_model) of all tensors but embeddings and output."""
    self_attention = {"self_attention": "self_attn"}
    attentions = {**self_attention, "cross_attention": "encoder_attn"}
    for stack, layers, parts in (
        ("encoder", config.num_encoder_layers, self_attention),
        ("decoder", config.num_decoder_layers, attentions),
    ):
        for number in range(layers):
            yield from _sublayers(f"{stack}.{number}", f"model.{stack}.layers.{number}", parts)
        if config.norm == "pre":
            yield from _layer(f"{stack}_norm", f"model.{stack}.layer_norm")


def _sublayers(
    ours: str, theirs: str, attentions: Mapping[str, str]
) -> Iterator[tuple[str, str, Axes]]:
    for name, other in attentions.items():
        for part, projection in _ATTENTION.items():
            pair = f"{ours}.{name}.{part}", f"{theirs}.{other}.{projection}"
            yield from _layer(*pair, writes_stream=part == "output")
        yield from _layer(f"{ours}.around_{name}.norm", f"{theirs}.{other}_layer_norm")
    for part, layer in _FEED_FORWARD.items():
        pair = f"{ours}.feed_forward.{part}", f"{theirs}.{layer}"
        yield from _layer(*pair, writes_stream=part == "outer")
    yield from _layer(f"{ours}.around_feed_forward.norm", f"{theirs}.final_layer_norm")


def _layer(ours: str, theirs: str, writes_stream: bool = True) -> Iterator[tuple[str, str, Axes]]:
    """Yield a norm, or a layer that reads the residual stream or writes it; of shape (out, in)."""
    yield f"{ours}.weight", f"{theirs}.weight", (0,) if writes_stream else (1,)
    yield f"{ours}.bias", f"{theirs}.bias", (0,) if writes_stream else ()


def _permute(tensor: Tensor, axes: Axes, order: Tensor) -> Tensor:
    for axis in axes:
        tensor = tensor.index_select(axis, order)
    return tensor.clone() if not axes else tensor
