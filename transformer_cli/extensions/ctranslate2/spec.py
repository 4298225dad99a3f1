"""Converts a trained model into CTranslate2's format.

Only names and layouts change, because CTranslate2 supports all parts of our models. Its own
sinusoids differ in layout from ours, so it always gets a table of positions, learned or not.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from transformer_cli.base.packages import import_extra
from transformer_cli.config.choices import Quantization
from transformer_cli.extensions.ctranslate2.engine import SINUSOIDS
from transformer_cli.extensions.ctranslate2.exported_models import TOKEN_SETTINGS
from transformer_cli.model import transformer
from transformer_cli.runs.trained_model import TrainedModel
from transformer_cli.text.protocol import SPECIALS, Tokenizer

_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "swish": "SWISH", "swiglu": "SWISH"}
"""CTranslate2's names for the activations that it supports; each can also be gated."""
_RMS_NORM = {"layernorm": False, "rmsnorm": True}
"""The norms that CTranslate2 supports, and its value of ``rms_norm`` for each."""
_IMPOSSIBLE = -1e4  # a logit, within the range of float16
_LARGEST_INT8 = 63
"""The largest int8 weight. CTranslate2 uses 127. But processors without VNNI, e.g. with only AVX2,
add two products of a weight and an activation, which is up to 255, in 16 bits. 2 * 127 * 255
overflows there, which changes translations; 2 * 63 * 255 fits."""


def write_model(
    trained: TrainedModel,
    quantization: Quantization,
    directory: Path,
    never_written: Sequence[int] = (),
) -> None:
    """Write the model and its vocabularies into ``directory``, which must be empty.

    With int8 and int16 weights, sums are still float32. The ids ``never_written`` get a very low
    logit, so no search writes them.
    """
    spec = build_spec(trained)
    spec.decoder.projection.bias[list(never_written)] = _IMPOSSIBLE
    spec.validate()
    if quantization.startswith("int8"):
        _quantize_int8(spec, quantization)
    else:
        spec.optimize(quantization)
    spec.save(str(directory))


def _quantize_int8(spec: Any, quantization: Quantization) -> None:
    """Quantize a model spec; then round int8 weights again, scaled by each row's largest weight."""
    model_spec = import_extra("ctranslate2.specs.model_spec", None, "format ctranslate2")
    weights = {name: each.numpy().copy() for name, each in spec.variables().items()}
    spec.optimize(quantization)

    def narrow(layer: Any, name: str, value: Any) -> None:
        key = name.rsplit("/")[-1]
        scale = f"{key}_scale"
        if not hasattr(layer, scale) or getattr(value, "dtype", None) != "int8":
            return
        scales = _LARGEST_INT8 / np.maximum(np.abs(weights[name]).max(axis=1), 1e-30)
        rounded = np.rint(weights[name] * scales[:, None]).astype(np.int8)
        setattr(layer, key, model_spec.NumpyVariable(rounded))
        setattr(layer, scale, model_spec.NumpyVariable(scales))

    model_spec.visit_spec(spec, narrow)


def build_spec(trained: TrainedModel) -> Any:
    """Return the model as a ``ctranslate2.specs.TransformerSpec``."""
    specs = import_extra("ctranslate2.specs", None, "format ctranslate2")
    config, model = trained.config.model, trained.model
    spec = specs.TransformerSpec.from_config(
        (config.num_encoder_layers, config.num_decoder_layers),
        config.num_heads,
        pre_norm=config.norm == "pre",
        activation=getattr(specs.Activation, _ACTIVATIONS[config.activation]),
        ffn_glu=transformer.ACTIVATIONS[config.activation].gated,
        rms_norm=_RMS_NORM[config.norm_kind],
    )
    _fill_stacks(spec, model)
    spec.register_source_vocabulary(_names(trained.tokenizers.src))
    spec.register_target_vocabulary(_names(trained.tokenizers.tgt))
    for key, value in TOKEN_SETTINGS.items():
        setattr(spec.config, key, value)
    (epsilon,) = {
        module.norm.eps for module in model.modules() if isinstance(module, transformer.Residual)
    }
    spec.config.layer_norm_epsilon = epsilon  # CTranslate2 has only one for all norms
    return spec


def _fill_stacks(spec: Any, model: transformer.Transformer) -> None:
    _fill_embedding(spec.encoder.embeddings[0], spec.encoder, model.src_embedding)
    _fill_embedding(spec.decoder.embeddings, spec.decoder, model.tgt_embedding)
    for encoder_spec, encoder_layer in zip(spec.encoder.layer, model.encoder, strict=True):
        assert isinstance(encoder_layer, transformer.EncoderLayer)
        _fill_layer(encoder_spec, encoder_layer)
    for decoder_spec, decoder_layer in zip(spec.decoder.layer, model.decoder_layers(), strict=True):
        _fill_layer(decoder_spec, decoder_layer)
        attention = decoder_layer.cross_attention
        _fill_linear(decoder_spec.attention.linear[0], attention.query)
        _fill_linear(decoder_spec.attention.linear[1], attention.key, attention.value)
        _fill_linear(decoder_spec.attention.linear[2], attention.output)
        _fill_norm(decoder_spec.attention, decoder_layer.around_cross_attention.norm)
    # With post-norm, these norms are identities, and the spec has no place for them.
    for stack, norm in ((spec.encoder, model.encoder_norm), (spec.decoder, model.decoder_norm)):
        if not isinstance(norm, nn.Identity):
            _fill_norm(stack, norm)
    _fill_linear(spec.decoder.projection, model.output)


def _fill_embedding(tokens: Any, stack: Any, embedding: transformer.Embedding) -> None:
    tokens.weight = _copy(embedding.tokens.weight)
    positions = embedding.positions
    table = (
        positions.table
        if isinstance(positions, transformer.LearnedPositions)
        else transformer.sinusoids(SINUSOIDS, positions.d_model)
    )
    stack.position_encodings.encodings = _copy(table)


def _fill_layer(spec: Any, layer: transformer.EncoderLayer | transformer.DecoderLayer) -> None:
    """Fill the parts that the layers of both stacks have: self-attention and feed-forward."""
    attention, feed_forward = layer.self_attention, layer.feed_forward
    _fill_linear(spec.self_attention.linear[0], attention.query, attention.key, attention.value)
    _fill_linear(spec.self_attention.linear[1], attention.output)
    _fill_norm(spec.self_attention, layer.around_self_attention.norm)
    if feed_forward.gate is None:
        _fill_linear(spec.ffn.linear_0, feed_forward.inner)
    else:  # the activated layer comes first
        _fill_linear(spec.ffn.linear_0, feed_forward.gate)
        _fill_linear(spec.ffn.linear_0_noact, feed_forward.inner)
    _fill_linear(spec.ffn.linear_1, feed_forward.outer)
    _fill_norm(spec.ffn, layer.around_feed_forward.norm)


def _fill_norm(owner: Any, norm: nn.Module) -> None:
    for theirs, ours in (("gamma", "weight"), ("beta", "bias")):
        if hasattr(owner.layer_norm, theirs):
            setattr(owner.layer_norm, theirs, _copy(getattr(norm, ours)))


def _fill_linear(spec: Any, *linears: nn.Linear) -> None:
    """Stack the weights of layers that have the same input into one matrix."""
    spec.weight = torch.cat([_copy(linear.weight) for linear in linears])
    spec.bias = torch.cat([_copy(linear.bias) for linear in linears])


def _copy(weight: Tensor) -> Tensor:
    # Clone, as CTranslate2 quantizes in place.
    return weight.detach().float().cpu().clone()


def _names(tokenizer: Tokenizer) -> list[str]:
    """Return unique token names in the order of their ids; CTranslate2 needs names."""
    names: dict[str, None] = {}
    for number in range(tokenizer.size):
        name = SPECIALS[number] if number < len(SPECIALS) else tokenizer.token(number)
        while name in names:
            name = f"{name}<{number}>"
        names[name] = None
    return list(names)
