"""The closed-form loss against nn.KLDivLoss over dense targets that a slow loop writes."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_cli.training import loss as loss_module
from transformer_cli.training.loss import Losses, label_smoothed_loss

PAD = 3
SIZE = 11
TARGETS = torch.tensor([[4, 0, 10, 2], [2, 1, PAD, PAD], [7, 2, PAD, PAD]])


def loss_of_logits(logits: Tensor, targets: Tensor, smoothing: float) -> Losses:
    """The loss behind an output layer that changes nothing, so that features are logits."""
    size = logits.size(-1)
    identity = nn.Linear(size, size, dtype=logits.dtype)
    with torch.no_grad():
        identity.weight.copy_(torch.eye(size))
        identity.bias.zero_()
    return label_smoothed_loss(logits, identity, targets, PAD, smoothing)


def random_logits(requires_grad: bool = True) -> Tensor:
    return (3.0 * torch.randn(*TARGETS.shape, SIZE)).requires_grad_(requires_grad)


def dense_target(targets: Tensor, smoothing: float) -> Tensor:
    """The smoothed distribution of every position, all zero where there is padding."""
    dense = torch.zeros(*targets.shape, SIZE, dtype=torch.float64)
    for row, position in [(r, p) for r in range(targets.size(0)) for p in range(targets.size(1))]:
        true_token = int(targets[row, position])
        if true_token == PAD:
            continue
        for token in range(SIZE):
            if token == true_token:
                dense[row, position, token] = 1.0 - smoothing
            elif token != PAD:
                dense[row, position, token] = smoothing / (SIZE - 2)
    return dense


def dense_loss(logits: Tensor, smoothing: float) -> Tensor:
    loss: Tensor = nn.KLDivLoss(reduction="sum")(
        logits.double().log_softmax(dim=2), dense_target(TARGETS, smoothing)
    )
    return loss


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_value_and_gradient_equal_the_dense_ones(smoothing: float) -> None:
    logits = random_logits()
    loss = loss_of_logits(logits, TARGETS, smoothing).smoothed
    expected = dense_loss(logits, smoothing)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    (gradient,) = torch.autograd.grad(loss, logits)
    (expected_gradient,) = torch.autograd.grad(expected, logits)
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-5, atol=1e-6)
    assert gradient[TARGETS == PAD].count_nonzero() == 0


def test_without_smoothing_it_is_cross_entropy() -> None:
    logits = random_logits()
    losses = loss_of_logits(logits, TARGETS, smoothing=0.0)
    expected = F.cross_entropy(
        logits.flatten(0, 1), TARGETS.flatten(), ignore_index=PAD, reduction="sum"
    )
    torch.testing.assert_close(losses.smoothed, expected)
    torch.testing.assert_close(losses.unsmoothed, expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_unsmoothed_is_cross_entropy_and_has_no_gradient(smoothing: float) -> None:
    logits = random_logits()
    unsmoothed = loss_of_logits(logits, TARGETS, smoothing).unsmoothed
    expected = F.cross_entropy(
        logits.flatten(0, 1), TARGETS.flatten(), ignore_index=PAD, reduction="sum"
    )
    torch.testing.assert_close(unsmoothed, expected)
    assert not unsmoothed.requires_grad


def test_by_hand() -> None:
    # Five tokens, the true one 0, padding 3, smoothing 0.3: the target is 0.7, 0.1, 0.1, 0, 0.1.
    # Its entropy is -(0.7 ln 0.7 + 3 x 0.1 ln 0.1) = 0.249672 + 0.690776 = 0.940448. Equal logits
    # make each 0.2: unsmoothed ln 5 = 1.609438, smoothed 1.609438 - 0.940448 = 0.668990.
    logits = torch.zeros(1, 5, requires_grad=True)
    losses = loss_of_logits(logits, torch.tensor([0]), smoothing=0.3)
    assert losses.unsmoothed.item() == pytest.approx(1.609438, abs=1e-6)
    assert losses.smoothed.item() == pytest.approx(0.668990, abs=1e-6)
    (gradient,) = torch.autograd.grad(losses.smoothed, logits)
    # 0.2 minus the target.
    torch.testing.assert_close(gradient, torch.tensor([[-0.5, 0.1, 0.1, 0.2, 0.1]]))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_nothing_but_padding_gives_zero(smoothing: float) -> None:
    logits = random_logits()
    losses = loss_of_logits(logits, torch.full_like(TARGETS, PAD), smoothing)
    assert losses.smoothed.item() == 0.0
    assert losses.unsmoothed.item() == 0.0
    (gradient,) = torch.autograd.grad(losses.smoothed, logits)
    assert gradient.count_nonzero() == 0


def test_an_incoming_gradient_is_respected() -> None:
    logits = random_logits()
    (plain,) = torch.autograd.grad(loss_of_logits(logits, TARGETS, 0.1).smoothed, logits)
    (scaled,) = torch.autograd.grad(loss_of_logits(logits, TARGETS, 0.1).smoothed * -0.25, logits)
    torch.testing.assert_close(scaled, -0.25 * plain)


def test_the_least_is_zero_where_the_model_says_the_target() -> None:
    target = dense_target(TARGETS, smoothing=0.1)
    # The logarithm of nothing, at padding, is made very small instead of infinite.
    logits = target.clamp(min=1e-30).log().float().requires_grad_()
    loss = loss_of_logits(logits, TARGETS, 0.1).smoothed
    assert loss.item() == pytest.approx(0.0, abs=1e-5)
    (gradient,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(gradient, torch.zeros_like(logits), rtol=0.0, atol=1e-6)


def test_elsewhere_it_is_more_than_zero() -> None:
    target = dense_target(TARGETS, smoothing=0.1)
    for noise in (0.05, 0.5, 5.0):
        logits = target.clamp(min=1e-30).log().float()
        loss = loss_of_logits(logits + noise * torch.randn_like(logits), TARGETS, 0.1)
        assert loss.smoothed.item() > 1e-4


def test_a_constant_added_to_logits_changes_nothing() -> None:
    logits = random_logits()
    losses = loss_of_logits(logits, TARGETS, 0.1)
    shifted = loss_of_logits(logits + 50.0, TARGETS, 0.1)
    torch.testing.assert_close(shifted.smoothed, losses.smoothed, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(shifted.unsmoothed, losses.unsmoothed, rtol=1e-4, atol=1e-4)


def test_extreme_logits_stay_finite() -> None:
    logits = (1000.0 * torch.randn(*TARGETS.shape, SIZE)).requires_grad_()
    losses = loss_of_logits(logits, TARGETS, 0.1)
    (gradient,) = torch.autograd.grad(losses.smoothed, logits)
    assert losses.smoothed.isfinite()
    assert gradient.isfinite().all()


def test_sums_over_parts_are_the_sum_of_the_whole() -> None:
    logits = random_logits(requires_grad=False)
    whole = loss_of_logits(logits, TARGETS, 0.1)
    rows = [loss_of_logits(logits[row], TARGETS[row], 0.1) for row in range(TARGETS.size(0))]
    assert math.fsum(row.smoothed.item() for row in rows) == pytest.approx(
        whole.smoothed.item(), rel=1e-5
    )
    assert math.fsum(row.unsmoothed.item() for row in rows) == pytest.approx(
        whole.unsmoothed.item(), rel=1e-5
    )


def test_a_large_vocabulary_keeps_its_precision() -> None:
    size = 8000
    logits = (2.0 * torch.randn(64, size)).requires_grad_()
    targets = torch.randint(4, size, (64,))
    loss = loss_of_logits(logits, targets, 0.1).smoothed
    target = torch.full((64, size), 0.1 / (size - 2), dtype=torch.float64)
    target[:, PAD] = 0.0
    target[torch.arange(64), targets] = 0.9
    expected = nn.KLDivLoss(reduction="sum")(logits.double().log_softmax(dim=1), target)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    (gradient,) = torch.autograd.grad(loss, logits)
    (expected_gradient,) = torch.autograd.grad(expected, logits)
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-4, atol=1e-7)


def output_layer(d_model: int, size: int) -> nn.Linear:
    layer = nn.Linear(d_model, size)
    with torch.no_grad():
        layer.bias.normal_()
    return layer


def test_gradients_reach_features_weight_and_bias() -> None:
    features = torch.randn(*TARGETS.shape, 6, requires_grad=True)
    layer = output_layer(6, SIZE)
    inputs = (features, layer.weight, layer.bias)
    loss = label_smoothed_loss(features, layer, TARGETS, PAD, 0.1).smoothed
    expected = dense_loss(layer(features), 0.1)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    torch.testing.assert_close(
        torch.autograd.grad(loss * 0.5, inputs),
        torch.autograd.grad(expected * 0.5, inputs),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("rows", [1, 2, 5, 12])
def test_chunks_change_nothing(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    features = torch.randn(*TARGETS.shape, 6, requires_grad=True)
    layer = output_layer(6, SIZE)
    inputs = (features, layer.weight, layer.bias)
    whole = label_smoothed_loss(features, layer, TARGETS, PAD, 0.1)
    monkeypatch.setitem(loss_module._CHUNK_ELEMENTS, "cpu", rows * SIZE)
    cut = label_smoothed_loss(features, layer, TARGETS, PAD, 0.1)
    torch.testing.assert_close(tuple(cut), tuple(whole))
    torch.testing.assert_close(
        torch.autograd.grad(cut.smoothed, inputs), torch.autograd.grad(whole.smoothed, inputs)
    )


def test_under_autocast_products_are_short_and_sums_are_not() -> None:
    features = torch.randn(*TARGETS.shape, 64, requires_grad=True)
    layer = output_layer(64, SIZE)
    inputs = (features, layer.weight, layer.bias)
    exact = label_smoothed_loss(features, layer, TARGETS, PAD, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        rough = label_smoothed_loss(features, layer, TARGETS, PAD, 0.1)
    assert rough.smoothed.dtype == rough.unsmoothed.dtype == torch.float32
    assert rough.smoothed.item() != exact.smoothed.item()
    torch.testing.assert_close(tuple(rough), tuple(exact), rtol=2e-2, atol=2e-2)
    rough_gradients = torch.autograd.grad(rough.smoothed, inputs)
    exact_gradients = torch.autograd.grad(exact.smoothed, inputs)
    for short, long in zip(rough_gradients, exact_gradients, strict=True):
        assert short.dtype == torch.float32
        assert (short - long).norm() < 0.02 * long.norm()
