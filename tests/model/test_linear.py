"""Products against F.linear, in value and gradient, packed and not."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.linear import FusedLinear, linear_no_grad, pack_weights
from transformer_cli.model.transformer import Transformer


class Holder(nn.Module):
    def __init__(self, *layers: nn.Linear) -> None:
        super().__init__()
        self.linear = FusedLinear(*layers)


def two_layers() -> tuple[nn.Linear, nn.Linear]:
    return nn.Linear(6, 5), nn.Linear(6, 8)


@pytest.mark.parametrize("shape", [(6,), (4, 6), (3, 4, 6), (1, 1, 6)])
def test_layers_stand_side_by_side(shape: tuple[int, ...]) -> None:
    first, second = two_layers()
    x = torch.randn(shape)
    expected = torch.cat((first(x), second(x)), dim=-1)
    torch.testing.assert_close(FusedLinear(first, second)(x), expected)
    torch.testing.assert_close(FusedLinear(second)(x), second(x))


@pytest.mark.parametrize("transposed", [False, True])
def test_gradients_are_those_of_linear(transposed: bool) -> None:
    first, second = two_layers()
    x = torch.randn(3, 4, 6, requires_grad=True)
    seen = x.transpose(0, 1) if transposed else x
    inputs = (x, first.weight, first.bias, second.weight, second.bias)
    expected = torch.cat((first(seen), second(seen)), dim=2)
    weights = torch.randn_like(expected)
    torch.testing.assert_close(
        torch.autograd.grad((FusedLinear(first, second)(seen) * weights).sum(), inputs),
        torch.autograd.grad((expected * weights).sum(), inputs),
    )


def test_an_input_without_gradient_gets_none() -> None:
    layer = nn.Linear(6, 5)
    x = torch.randn(4, 6)
    torch.autograd.backward(FusedLinear(layer)(x).sum())
    assert x.grad is None
    torch.testing.assert_close(layer.bias.grad, torch.full((5,), 4.0))


def test_double_precision_stays_double() -> None:
    layer = nn.Linear(6, 5).double()
    x = torch.randn(4, 6, dtype=torch.float64)
    torch.testing.assert_close(FusedLinear(layer)(x), layer(x), rtol=0.0, atol=1e-15)


def test_under_autocast_the_product_is_short() -> None:
    layer = nn.Linear(64, 5)
    x = torch.randn(4, 64)
    with torch.autocast("cpu", torch.bfloat16):
        short = FusedLinear(layer)(x)
        assert short.dtype == torch.bfloat16
        torch.testing.assert_close(short, layer(x))


@pytest.mark.parametrize("autocast", [False, True])
def test_packing_changes_nothing_but_speed(autocast: bool) -> None:
    first, second = two_layers()
    holder = Holder(first, second)
    x = torch.randn(4, 6)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        expected = holder.linear(x)
        with pack_weights(holder):
            torch.testing.assert_close(holder.linear(x), expected, rtol=1e-2, atol=1e-2)


def test_after_packing_changed_weights_are_seen() -> None:
    config = ModelConfig(d_model=8, num_heads=2, d_ff=8)
    model = Transformer(config, src_size=7, tgt_size=7, pad_id=3).eval()
    ids = torch.tensor([[4, 5, 2]])
    with torch.inference_mode():
        with pack_weights(model):
            packed = model(ids, ids)
        torch.testing.assert_close(packed, model(ids, ids))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    with torch.inference_mode():
        changed = model(ids, ids)
        assert not torch.allclose(changed, packed)
        with pack_weights(model):
            torch.testing.assert_close(model(ids, ids), changed)


def test_a_block_that_fails_leaves_nothing_packed() -> None:
    layer = nn.Linear(6, 5)
    holder = Holder(layer)
    with pytest.raises(RuntimeError), pack_weights(holder):
        raise RuntimeError
    with torch.no_grad():
        layer.weight.zero_()
    torch.testing.assert_close(holder.linear(torch.ones(1, 6)), layer.bias[None])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_transposed_views_may_be_multiplied(dtype: torch.dtype) -> None:
    x, y = torch.randn(7, 4).to(dtype), torch.randn(7, 9).to(dtype)
    torch.testing.assert_close(linear_no_grad(x.t(), y.t()), x.t() @ y)
    bias = torch.randn(9).to(dtype)
    torch.testing.assert_close(linear_no_grad(x.t(), y.t(), bias), F.linear(x.t(), y.t(), bias))
