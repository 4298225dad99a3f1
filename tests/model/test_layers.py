"""Feed-forward, residual connections and the places where dropout falls."""

from typing import Any, Literal

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.transformer import FeedForward, Residual


def config(**settings: Any) -> ModelConfig:
    return ModelConfig(**{"d_model": 4, "num_heads": 1, "d_ff": 6, "dropout": 0.0} | settings)


def randomise(module: torch.nn.Module) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()


def normalised(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Layer normalisation by its formula (Ba et al. 2016)."""
    mean = x.mean(dim=-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
    return (x - mean) / (variance + 1e-5).sqrt() * weight + bias


def test_swiglu_by_its_formula() -> None:
    feed_forward = FeedForward(config(activation="swiglu"))
    randomise(feed_forward)
    assert feed_forward.gate is not None
    x = torch.randn(2, 3, 4)
    gate = x @ feed_forward.gate.weight.T + feed_forward.gate.bias
    swish = gate / (1.0 + (-gate).exp())
    inner = swish * (x @ feed_forward.inner.weight.T + feed_forward.inner.bias)
    expected = inner @ feed_forward.outer.weight.T + feed_forward.outer.bias
    torch.testing.assert_close(feed_forward(x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_relu_and_gelu_by_their_formulas(activation: Literal["relu", "gelu"]) -> None:
    feed_forward = FeedForward(config(activation=activation))
    randomise(feed_forward)
    x = torch.randn(2, 3, 4)
    inner = x @ feed_forward.inner.weight.T + feed_forward.inner.bias
    if activation == "relu":
        active = inner.clamp(min=0.0)
    else:
        active = inner * 0.5 * (1.0 + torch.erf(inner / 2.0**0.5))
    expected = active @ feed_forward.outer.weight.T + feed_forward.outer.bias
    torch.testing.assert_close(feed_forward(x), expected, rtol=1e-5, atol=1e-5)


def test_activation_dropout_falls_after_the_activation() -> None:
    feed_forward = FeedForward(config(d_ff=4, activation="gelu", activation_dropout=0.5))
    with torch.no_grad():
        for linear in (feed_forward.inner, feed_forward.outer):
            linear.weight.copy_(torch.eye(4))
        feed_forward.inner.bias.zero_()
        feed_forward.outer.bias.fill_(1.0)
    x = torch.randn(500, 4)
    # The outer bias, added after the dropout, is never dropped or doubled.
    result = feed_forward(x) - 1.0
    zeros = result == 0.0
    assert 0.4 < zeros.double().mean() < 0.6
    torch.testing.assert_close(result[~zeros], 2.0 * F.gelu(x)[~zeros], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_residual_by_its_formula(norm: Literal["pre", "post"]) -> None:
    residual = Residual(config(norm=norm))
    randomise(residual)
    x = torch.randn(5, 4)
    assert isinstance(residual.norm, torch.nn.LayerNorm)
    weight, bias = residual.norm.weight, residual.norm.bias
    if norm == "pre":
        expected = x + normalised(x, weight, bias) ** 3
    else:
        expected = normalised(x + x**3, weight, bias)
    torch.testing.assert_close(residual(x, lambda y: y**3), expected, rtol=1e-5, atol=1e-5)


def test_rms_norm_by_its_formula() -> None:
    residual = Residual(config(norm_kind="rmsnorm"))
    randomise(residual)
    x = torch.randn(5, 4)
    (weight,) = residual.norm.parameters()
    normed = x / ((x**2).mean(dim=-1, keepdim=True) + 1e-5).sqrt() * weight
    torch.testing.assert_close(residual(x, lambda y: y**3), x + normed**3)


def test_residual_drops_from_the_sublayer_and_not_from_its_input() -> None:
    residual = Residual(config(dropout=0.5))
    x = torch.zeros(500, 4)
    result = residual(x + 7.0, lambda y: torch.ones_like(y))
    # 7, plus 1 that is either dropped or doubled.
    zeros = result == 7.0
    assert 0.4 < zeros.double().mean() < 0.6
    assert (result[~zeros] == 9.0).all()
