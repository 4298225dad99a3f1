"""A Marian model of our sizes, which writes outputs of a fixed length.

Marian cannot compute our function: its decoder starts from a zero vector rather than BOS, the rates
of its sinusoids are 10000^(-i / (d_model / 2 - 1)), and its pre-norm, by its source, normalises
queries only, not keys and values. So it gets our weights, for their sizes, and a bias that rules
EOS out: its outputs are as long as --max-length-factor allows. Its speed depends on nothing else.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from safetensors.numpy import load_file

from benchmarks.decoding_job import EOS_ID, UNK_ID

LENGTH_FACTOR = 0.88
"""Times the longest source of a batch, rounded up: about 15 tokens a sentence in sorted batches of
test_2016_flickr, as the references have, EOS included."""
Weights = Mapping[str, np.ndarray]

OPTIONS = {
    "type": "transformer",
    "transformer-ffn-activation": "relu",
    "transformer-preprocess": "n",
    "transformer-postprocess": "da",
    "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": "n",
    "tied-embeddings-all": True,
}
"""Marian's names of what our models are: all embeddings tied, norms first."""


def size_options(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return Marian's options for the sizes of a run's ``model`` section."""
    return {
        "dim-emb": model["d_model"],
        "enc-depth": model["num_encoder_layers"],
        "dec-depth": model["num_decoder_layers"],
        "transformer-heads": model["num_heads"],
        "transformer-dim-ffn": model["d_ff"],
    }


def write_vocabulary(size: int, path: Path) -> None:
    """Write a vocabulary whose words are our ids."""
    names = {EOS_ID: "</s>", UNK_ID: "<unk>"}
    lines = (f'"{names.get(number, number)}": {number}\n' for number in range(size))
    path.write_text("".join(lines), encoding="utf-8")


def convert(weights_file: Path, model: Mapping[str, Any], npz: Path) -> None:
    """Write a model of our sizes for Marian.

    Args:
        weights_file: safetensors.
        model: the run's ``model`` section.
        npz: the file to write.
    """
    weights = load_file(weights_file)
    options = {
        "version": "v1.12.42",
        **OPTIONS,
        **size_options(model),
        "dim-vocabs": 2 * [len(weights["output.bias"])],
        "input-types": [],
        "transformer-tied-layers": [],
    }
    settings = yaml.safe_dump(options).encode() + b"\0"
    # Marian reads rows one after the other only.
    arrays: dict[str, Any] = {
        name: np.ascontiguousarray(weight) for name, weight in _parameters(weights)
    }
    arrays["special:model.yml"] = np.frombuffer(settings, np.int8)
    np.savez(npz, **arrays)


def _parameters(weights: Weights) -> Iterator[tuple[str, np.ndarray]]:
    """Yield Marian's names, each with our weight; its matrices are (input, output)."""
    yield "Wemb", weights["src_embedding.tokens.weight"]
    yield "decoder_ff_logit_out_b", _without_end(weights["output.bias"])
    for name, weight in weights.items():
        if found := re.fullmatch(r"(encoder|decoder)_norm\.(weight|bias)", name):
            yield f"{found[1]}_top_ln_{_NORMS[found[2]]}", weight[None]
        elif found := re.fullmatch(r"(encoder|decoder)\.(\d+)\.(.*)\.(weight|bias)", name):
            layer = f"{found[1]}_l{int(found[2]) + 1}"
            yield f"{layer}_{_translate(found[3], found[4])}", np.atleast_2d(weight.T)


_NORMS = {"weight": "scale", "bias": "bias"}
_SUBLAYERS = {"self_attention": "self", "cross_attention": "context"}
_MATRICES = {"query": "q", "key": "k", "value": "v", "output": "o"}
_FEED_FORWARD = {"inner": "1", "outer": "2"}


def _translate(module: str, parameter: str) -> str:
    """Return Marian's name of a parameter of a layer."""
    first, second = module.split(".")
    letter = {"weight": "W", "bias": "b"}[parameter]
    if second == "norm":
        sublayer = first.removeprefix("around_")
        prefix = f"{_SUBLAYERS[sublayer]}_Wo" if sublayer in _SUBLAYERS else "ffn_ffn"
        return f"{prefix}_ln_{_NORMS[parameter]}_pre"
    if first == "feed_forward":
        return f"ffn_{letter}{_FEED_FORWARD[second]}"
    return f"{_SUBLAYERS[first]}_{letter}{_MATRICES[second]}"


def _without_end(bias: np.ndarray) -> np.ndarray:
    ruled_out = np.arange(len(bias)) == EOS_ID
    return np.where(ruled_out, -1e9, bias).astype(bias.dtype)[None]
