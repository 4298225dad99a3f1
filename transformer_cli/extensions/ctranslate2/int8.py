"""Rounds weights to int8 so that any processor multiplies them without overflow."""

from typing import Any

import numpy as np

from transformer_cli.base.packages import import_extra
from transformer_cli.config.choices import Quantization

_MOST = 63
"""The largest int8 weight. CTranslate2 uses 127. But processors without VNNI, e.g. with only AVX2,
add two products of a weight and an activation, which is up to 255, in 16 bits. 2 * 127 * 255
overflows there, which changes translations; 2 * 63 * 255 fits."""


def quantize(spec: Any, quantization: Quantization) -> None:
    """Quantize a model spec; then round int8 weights again, scaled by each row's largest weight."""
    model_spec = import_extra("ctranslate2.specs.model_spec", None, "format ctranslate2")
    weights = {name: each.numpy().copy() for name, each in spec.variables().items()}
    spec.optimize(quantization)

    def narrow(layer: Any, name: str, value: Any) -> None:
        key = name.rsplit("/")[-1]
        scale = f"{key}_scale"
        if not hasattr(layer, scale) or getattr(value, "dtype", None) != "int8":
            return
        scales = _MOST / np.maximum(np.abs(weights[name]).max(axis=1), 1e-30)
        rounded = np.rint(weights[name] * scales[:, None]).astype(np.int8)
        setattr(layer, key, model_spec.NumpyVariable(rounded))
        setattr(layer, scale, model_spec.NumpyVariable(scales))

    model_spec.visit_spec(spec, narrow)
