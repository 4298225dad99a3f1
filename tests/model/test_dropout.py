"""Dropout: its rate, its scale, its expectation, its gradient, and when it does nothing."""

import math

import pytest
import torch
from torch import Tensor

from transformer_cli.model.transformer import Dropout

COUNT = 1_000_000


def dropped(shape: tuple[int, ...], p: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """What becomes of ones."""
    result: Tensor = Dropout(p)(torch.ones(shape, dtype=dtype))
    return result


@pytest.mark.parametrize("p", [0.1, 0.3])
def test_rate_scale_and_expectation(p: float) -> None:
    result = dropped((COUNT,), p)
    zeros = result == 0.0
    # Five standard deviations of a binomial share.
    tolerance = 5.0 * math.sqrt(p * (1.0 - p) / COUNT)
    assert zeros.double().mean().item() == pytest.approx(p, abs=tolerance)
    # p is rounded by at most 2^-17, which moves the scale by less than 2e-5 here.
    kept = result[~zeros]
    assert kept.min() == kept.max()
    assert kept[0].item() == pytest.approx(1.0 / (1.0 - p), abs=2e-5)
    deviation = math.sqrt(p / (1.0 - p) / COUNT)
    assert result.double().mean().item() == pytest.approx(1.0, abs=5.0 * deviation)


def test_scale_follows_the_rounded_rate() -> None:
    # 0.3 * 65536 = 19660.8 is rounded to 19661: 65536 / (65536 - 19661) = 65536 / 45875.
    assert dropped((100,), 0.3).max().item() == pytest.approx(65536 / 45875, rel=1e-7)


def test_expectation_is_exact_over_all_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    every_level = torch.arange(-(2**15), 2**15, dtype=torch.int16)
    monkeypatch.setattr(
        Tensor, "random_", lambda draws, *_: draws.copy_(every_level.view(torch.int64))
    )
    result = dropped((2**16,), 0.3, torch.float64)
    assert (result == 0.0).sum() == 19661
    assert result.mean().item() == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("distance", [1, 2, 3, 4])
def test_elements_of_one_draw_are_independent(distance: int) -> None:
    p = 0.3
    zeros = dropped((COUNT,), p) == 0.0
    both = (zeros[distance:] & zeros[:-distance]).double().mean().item()
    expected = p * p
    # Neighbouring pairs overlap, which at most triples the variance.
    tolerance = 5.0 * math.sqrt(3.0 * expected * (1.0 - expected) / COUNT)
    assert both == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize("lane", range(4))
def test_every_lane_of_a_draw_has_the_rate(lane: int) -> None:
    zeros = dropped((COUNT,), 0.1)[lane::4] == 0.0
    tolerance = 5.0 * math.sqrt(0.1 * 0.9 / zeros.numel())
    assert zeros.double().mean().item() == pytest.approx(0.1, abs=tolerance)


def test_kept_elements_are_scaled_and_the_input_stays() -> None:
    x = torch.randn(1000)
    before = x.clone()
    result = Dropout(0.25)(x)
    assert torch.equal(x, before)
    kept = result != 0.0
    torch.testing.assert_close(result[kept], x[kept] / 0.75)


def test_gradient_has_the_mask_and_scale_of_the_output() -> None:
    x = torch.randn(1001, requires_grad=True)
    incoming = torch.randn(1001)
    result = Dropout(0.3)(x)
    result.backward(incoming)
    assert x.grad is not None
    expected = torch.where(result == 0.0, 0.0, incoming * (65536 / 45875))
    torch.testing.assert_close(x.grad, expected)
    assert (result == 0.0).any()


def test_same_seed_same_mask() -> None:
    torch.manual_seed(5)
    first, next_one = dropped((100,), 0.5), dropped((100,), 0.5)
    torch.manual_seed(5)
    assert torch.equal(dropped((100,), 0.5), first)
    assert not torch.equal(first, next_one)


def test_evaluation_and_rate_zero_give_the_input_itself() -> None:
    x = torch.randn(3, 5)
    assert Dropout(0.3).eval()(x) is x
    assert Dropout(0.0)(x) is x


@pytest.mark.parametrize("shape", [(1,), (2,), (3,), (5,), (3, 7), (1, 1, 13), (0, 4)])
def test_any_number_of_elements(shape: tuple[int, ...]) -> None:
    result = dropped(shape, 0.5)
    assert result.shape == shape
    assert ((result == 0.0) | (result == 2.0)).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_dtypes_stay_what_they_are(dtype: torch.dtype) -> None:
    result = dropped((1001,), 0.1, dtype)
    assert result.dtype == dtype
    kept = result[result != 0.0]
    tolerance = 2e-5 + torch.finfo(dtype).eps
    assert kept.min() == kept.max()
    assert kept[0].item() == pytest.approx(1.0 / 0.9, abs=tolerance)


def test_input_that_is_not_contiguous() -> None:
    x = torch.randn(30, 20).t()[::3, 1::2]
    assert not x.is_contiguous()
    torch.manual_seed(2)
    result = Dropout(0.5)(x)
    torch.manual_seed(2)
    assert torch.equal(result, Dropout(0.5)(x.contiguous()))
    kept = result != 0.0
    torch.testing.assert_close(result[kept], 2.0 * x[kept])


@pytest.mark.gpu
def test_rate_on_a_gpu() -> None:
    result = Dropout(0.3)(torch.ones(COUNT, device="cuda"))
    share = (result == 0.0).double().mean().item()
    assert share == pytest.approx(0.3, abs=5.0 * math.sqrt(0.21 / COUNT))
    assert result.max().item() == pytest.approx(1.0 / 0.7)
