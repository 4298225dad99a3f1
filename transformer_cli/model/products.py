"""The products x W^T + b that nearly all arithmetic is spent in.

torch sends float32 products on a CPU to MKL, which on the AMD processor that we measured is less
than half as fast as oneDNN, which torch brings too. Its calls used here are those that torch's own
compiler and its autograd make. docs/benchmarks.md has the figures.
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


class Product:
    """Several linear layers applied to the same input, by one product.

    Args:
        layers: of equal input width, with biases. Their weights stay theirs.
    """

    def __init__(self, *layers: nn.Linear) -> None:
        self._layers = layers
        self._packed: tuple[Tensor, Tensor] | None = None
        self._plain = False

    def __call__(
        self, x: Float[Tensor, "*batch d_in"], relu: bool = False
    ) -> Float[Tensor, "*batch d_out"]:
        """The layers' outputs side by side, in autocast's type where that is on.

        Args:
            x: the layers' input.
            relu: give nothing less than zero.
        """
        if self._packed is not None and self._packed[0].is_mkldnn:
            weight, bias = self._packed
            return _onednn_product(x.to(bias.dtype), weight, bias, "relu" if relu else "none")
        product = self._product(x)
        return F.relu(product) if relu else product

    def _product(self, x: Tensor) -> Tensor:
        weight, bias = self._packed or self._weights()
        if self._plain:
            return F.linear(x, *self._weights())
        if product_type(x) == torch.float32 and _onednn_takes(x, torch.float32):
            product: Tensor = _DifferentiableProduct.apply(x, weight, bias)  # type: ignore[no-untyped-call]
            return product
        return F.linear(x, weight, bias)

    def pack(self) -> None:
        """Keep the weights side by side and in autocast's type, laid out as oneDNN reads them best.

        They must not change until ``unpack``.
        """
        weight, bias = (each.detach().to(product_type(each)) for each in self._weights())
        if _onednn_takes(weight, weight.dtype):
            weight = torch.ops.mkldnn._reorder_linear_weight(weight, None)
        self._packed = weight, bias

    def unpack(self) -> None:
        """Use the layers' own weights again."""
        self._packed = None

    def be_plain(self) -> None:
        """Be torch's own product from now on, which its exporters know."""
        self._plain = True

    def _weights(self) -> tuple[Tensor, Tensor]:
        if len(self._layers) == 1:
            return self._layers[0].weight, self._layers[0].bias
        return (
            torch.cat([layer.weight for layer in self._layers]),
            torch.cat([layer.bias for layer in self._layers]),
        )


@contextmanager
def packed_weights(model: nn.Module) -> Iterator[None]:
    """Make products faster inside the block, where the model's weights must not change.

    They come in the type of the autocast that is on where the block begins.
    """
    products = list(products_of(model))
    try:
        for product in products:
            product.pack()
        yield
    finally:
        for product in products:
            product.unpack()


def products_of(model: nn.Module) -> Iterator[Product]:
    """All products that ``model`` is made of."""
    for module in model.modules():
        yield from (value for value in vars(module).values() if isinstance(value, Product))


def product_type(x: Tensor) -> torch.dtype:
    """The type in which a product of ``x`` is computed: autocast's, where that is on."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def times_transposed(
    x: Float[Tensor, "row inner"], y: Float[Tensor, "column inner"], bias: Tensor | None = None
) -> Float[Tensor, "row column"]:
    """The product x y^T + bias, without gradients. ``x`` and ``y`` may be transposed views."""
    if _onednn_takes(x, x.dtype):
        return _onednn_product(x, y, bias)
    return F.linear(x, y, bias)


class _DifferentiableProduct(torch.autograd.Function):
    """F.linear in float32, by oneDNN forward and backward."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "*batch d_in"],
        weight: Float[Tensor, "d_out d_in"],
        bias: Float[Tensor, " d_out"],
    ) -> Float[Tensor, "*batch d_out"]:
        ctx.save_for_backward(x, weight)
        return _onednn_product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad: Float[Tensor, "*batch d_out"]
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        grad = grad.flatten(0, -2).contiguous()
        grad_x = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_x = _onednn_product(grad, weight.t(), None).view_as(x)
        if ctx.needs_input_grad[1]:
            grad_weight, grad_bias = torch.ops.aten.mkldnn_linear_backward_weights(
                grad.to_mkldnn(), x.flatten(0, -2).contiguous().to_mkldnn(), weight, True
            )
        return grad_x, grad_weight, grad_bias


def _onednn_product(
    x: Tensor, weight: Tensor, bias: Tensor | None, activation: str = "none"
) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, activation, [], "")
    return product


def _onednn_takes(x: Tensor, dtype: torch.dtype) -> bool:
    """Whether oneDNN can multiply ``x`` in type ``dtype``, and well."""
    return x.device.type == "cpu" and dtype in _onednn_types()


@cache
def _onednn_types() -> tuple[torch.dtype, ...]:
    # Measured on an AMD processor only. Torch's builds for other kinds have other libraries.
    if platform.machine() not in ("x86_64", "AMD64") or not _has_onednn_calls():
        return ()
    if torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return torch.float32, torch.bfloat16
    return (torch.float32,)


def _has_onednn_calls() -> bool:
    """Whether this torch has oneDNN, and in it what is called here, some of it by private names."""
    names = ("_linear_pointwise", "_reorder_linear_weight", "_is_mkldnn_bf16_supported")
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return (
        available
        and all(hasattr(torch.ops.mkldnn, name) for name in names)
        and hasattr(torch.ops.aten, "mkldnn_linear_backward_weights")
    )
