"""Linear layers x W^T + b, which do nearly all of the arithmetic.

On a CPU, torch computes float32 GEMMs with MKL. On the AMD processor that we measured, MKL is less
than half as fast as oneDNN, which torch also ships (docs/benchmarks.md). This module calls the same
oneDNN operators as torch's compiler and autograd.
"""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


class FusedLinear:
    """Several linear layers with biases and a common input, computed as one GEMM.

    It is not a module, so the layers keep their parameters, and checkpoints do not depend on it.
    """

    def __init__(self, *layers: nn.Linear) -> None:
        self._layers = layers
        self._packed: tuple[Tensor, Tensor] | None = None

    def __call__(
        self, x: Float[Tensor, "*batch d_in"], relu: bool = False
    ) -> Float[Tensor, "*batch d_out"]:
        """Return the concatenated outputs, after ReLU if ``relu``; autocast may set the dtype."""
        if self._packed is not None and self._packed[0].is_mkldnn:
            weight, bias = self._packed
            return _onednn_linear(x.to(bias.dtype), weight, bias, "relu" if relu else "none")
        weight, bias = self._packed or self._weights()
        if compute_dtype(x) == torch.float32 and _can_use_onednn(x, torch.float32):
            y: Tensor = _OneDnnLinear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        else:
            y = F.linear(x, weight, bias)
        return F.relu(y) if relu else y

    def pack(self) -> None:
        """Concatenate the weights, cast them to autocast's dtype and reorder them for oneDNN.

        The weights must not change until ``unpack`` is called.
        """
        weight, bias = (x.detach().to(compute_dtype(x)) for x in self._weights())
        if _can_use_onednn(weight, weight.dtype):
            weight = torch.ops.mkldnn._reorder_linear_weight(weight, None)
        self._packed = weight, bias

    def unpack(self) -> None:
        """Use the layers' own parameters again."""
        self._packed = None

    def _weights(self) -> tuple[Tensor, Tensor]:
        """Return the concatenated weights of all layers, and their concatenated biases."""
        if len(self._layers) == 1:
            return self._layers[0].weight, self._layers[0].bias
        weights, biases = zip(*((layer.weight, layer.bias) for layer in self._layers), strict=True)
        return torch.cat(weights), torch.cat(biases)


@contextmanager
def pack_weights(model: nn.Module) -> Iterator[None]:
    """Pack a model's weights inside the block, which must not change them; see ``FusedLinear``."""
    linears = list(fused_linears(model))
    try:
        for linear in linears:
            linear.pack()
        yield
    finally:
        for linear in linears:
            linear.unpack()


def fused_linears(model: nn.Module) -> Iterator[FusedLinear]:
    """Yield every ``FusedLinear`` of ``model``."""
    for module in model.modules():
        yield from (value for value in vars(module).values() if isinstance(value, FusedLinear))


def autocast(device: torch.device, precision: torch.dtype) -> torch.autocast:
    """Return an autocast context for ``precision``; weights stay float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == torch.bfloat16)


def compute_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype that a linear layer computes ``x`` in: autocast's if it is enabled."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def linear_no_grad(
    x: Float[Tensor, "row inner"], y: Float[Tensor, "column inner"], bias: Tensor | None = None
) -> Float[Tensor, "row column"]:
    """Return x y^T + bias without gradients; ``x`` and ``y`` may be transposed views."""
    if _can_use_onednn(x, x.dtype):
        return _onednn_linear(x, y, bias)
    return F.linear(x, y, bias)


class _OneDnnLinear(torch.autograd.Function):
    """``F.linear`` in float32, with oneDNN forward and backward."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "*batch d_in"],
        weight: Float[Tensor, "d_out d_in"],
        bias: Float[Tensor, " d_out"],
    ) -> Float[Tensor, "*batch d_out"]:
        ctx.save_for_backward(x, weight)
        return _onednn_linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad: Float[Tensor, "*batch d_out"]
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        grad = grad.flatten(0, -2).contiguous()
        grad_x = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_x = _onednn_linear(grad, weight.t(), None).view_as(x)
        if ctx.needs_input_grad[1]:
            grad_weight, grad_bias = torch.ops.aten.mkldnn_linear_backward_weights(
                grad.to_mkldnn(), x.flatten(0, -2).contiguous().to_mkldnn(), weight, True
            )
        return grad_x, grad_weight, grad_bias


def _onednn_linear(
    x: Tensor, weight: Tensor, bias: Tensor | None, activation: str = "none"
) -> Tensor:
    y: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, activation, [], "")
    return y


def _can_use_onednn(x: Tensor, dtype: torch.dtype) -> bool:
    return x.device.type == "cpu" and dtype in _onednn_dtypes()


@cache
def _onednn_dtypes() -> tuple[torch.dtype, ...]:
    # Some of these operators are private, so another version of torch may lack them.
    names = ("_linear_pointwise", "_reorder_linear_weight", "_is_mkldnn_bf16_supported")
    has_operators = (
        torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and all(hasattr(torch.ops.mkldnn, name) for name in names)
        and hasattr(torch.ops.aten, "mkldnn_linear_backward_weights")
    )
    # We measured AMD only; torch builds for other architectures ship other libraries.
    if platform.machine() not in ("x86_64", "AMD64") or not has_operators:
        return ()
    has_bfloat16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return (torch.float32, torch.bfloat16) if has_bfloat16 else (torch.float32,)
