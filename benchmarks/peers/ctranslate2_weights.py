"""Our weights as a CTranslate2 model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from ctranslate2.specs import common_spec, transformer_spec
from safetensors.numpy import load_file

from benchmarks.decoding_job import Job
from benchmarks.peers.ctranslate2_names import BOS, EOS, UNK, token

Weights = Mapping[str, np.ndarray]


def convert(job: Job, directory: Path) -> None:
    """Write the job's model for CTranslate2 into an existing directory.

    All embeddings are tied, positions are sinusoids, norms come first.
    """
    weights = load_file(job.weights)
    spec = transformer_spec.TransformerSpec.from_config(
        (job.model["num_encoder_layers"], job.model["num_decoder_layers"]),
        job.model["num_heads"],
        pre_norm=True,
        activation=common_spec.Activation.RELU,
    )
    embeddings = weights["src_embedding.tokens.weight"]
    # Its built-in sinusoids have all sines before all cosines; the paper's and ours alternate.
    positions = sinusoids(max(map(len, job.sources)) + max(job.limits), job.model["d_model"])
    spec.encoder.embeddings[0].weight = embeddings
    spec.decoder.embeddings.weight = embeddings
    spec.decoder.projection.weight = embeddings
    spec.decoder.projection.bias = weights["output.bias"]
    for name, stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        stack.scale_embeddings = True  # by sqrt(d_model)
        stack.position_encodings.encodings = positions
        _set_norm(stack.layer_norm, weights, f"{name}_norm")
        for number, layer in enumerate(stack.layer):
            _set_layer(layer, weights, f"{name}.{number}")

    tokens = [token(number) for number in range(job.vocab_size)]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.unk_token = UNK
    spec.config.bos_token = spec.config.decoder_start_token = BOS
    spec.config.eos_token = EOS
    spec.config.add_source_eos = False  # the job's sources end in it
    spec.config.layer_norm_epsilon = 1e-5  # torch's
    spec.validate()
    spec.optimize()
    spec.save(str(directory))


def sinusoids(length: int, d_model: int) -> np.ndarray:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos(the same)."""
    rates = 10000.0 ** (-np.arange(0, d_model, 2) / d_model)
    angles = np.arange(length)[:, None] * rates
    return np.stack((np.sin(angles), np.cos(angles)), axis=2).reshape(length, d_model)


def _set_layer(layer: Any, weights: Weights, name: str) -> None:
    _set_attention(layer.self_attention, weights, name, "self_attention", fused=("qkv",))
    if hasattr(layer, "attention"):
        _set_attention(layer.attention, weights, name, "cross_attention", fused=("q", "kv"))
    _set_norm(layer.ffn.layer_norm, weights, f"{name}.around_feed_forward.norm")
    _set_linear(layer.ffn.linear_0, weights, f"{name}.feed_forward.inner")
    _set_linear(layer.ffn.linear_1, weights, f"{name}.feed_forward.outer")


def _set_attention(
    attention: Any, weights: Weights, layer: str, name: str, fused: tuple[str, ...]
) -> None:
    """Set an attention's norm, its projections, of which some are one matrix, and its output."""
    _set_norm(attention.layer_norm, weights, f"{layer}.around_{name}.norm")
    ours = {"q": "query", "k": "key", "v": "value"}
    for linear, letters in zip(attention.linear[:-1], fused, strict=True):
        _set_linear(linear, weights, *(f"{layer}.{name}.{ours[letter]}" for letter in letters))
    _set_linear(attention.linear[-1], weights, f"{layer}.{name}.output")


def _set_linear(linear: Any, weights: Weights, *names: str) -> None:
    linear.weight = np.concatenate([weights[f"{name}.weight"] for name in names])
    linear.bias = np.concatenate([weights[f"{name}.bias"] for name in names])


def _set_norm(norm: Any, weights: Weights, name: str) -> None:
    norm.gamma = weights[f"{name}.weight"]
    norm.beta = weights[f"{name}.bias"]
