"""Attention weights as JSON."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from transformer_cli.inference.attention_maps import AttentionMaps
from transformer_cli.text.vocabulary import BOS_ID, SPECIALS

STEPS = 255
"""Weights are kept in so many steps from 0 to 1, a byte each."""


def pack_attention(title: str, maps: AttentionMaps) -> dict[str, Any]:
    """Return one sentence's weights as JSON values.

    Each kind of attention has the words that look ('queries'), those that are looked at ('keys'),
    its numbers of layers and heads, and its weights: a byte each, layer by layer, head by head,
    query by query, in base64.
    """
    src, tgt = maps.src_tokens, maps.tgt_tokens
    # What a step of the decoder puts in is the word before the one that it writes.
    put_in = [SPECIALS[BOS_ID], *tgt[:-1]]
    return {
        "title": title,
        "kinds": {
            "cross": _kind(tgt, src, maps.cross),
            "encoder": _kind(src, src, maps.encoder),
            "decoder": _kind(tgt, put_in, maps.decoder),
        },
    }


def _kind(queries: Sequence[str], keys: Sequence[str], weights: Tensor) -> dict[str, Any]:
    layers, heads, rows, columns = weights.shape
    assert (rows, columns) == (len(queries), len(keys))
    steps = np.rint(weights.numpy() * STEPS).clip(0, STEPS).astype(np.uint8)
    return {
        "queries": list(queries),
        "keys": list(keys),
        "layers": layers,
        "heads": heads,
        "weights": base64.b64encode(steps.tobytes()).decode("ascii"),
    }
