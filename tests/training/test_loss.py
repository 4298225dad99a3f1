"""The closed-form loss against nn.KLDivLoss over dense targets that a slow loop writes.

And against autograd, for the divergence between two passes.
"""

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
    """The loss behind an output layer that changes nothing, so that hidden_states are logits."""
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
    loss = loss_of_logits(logits, TARGETS, smoothing).loss
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
    torch.testing.assert_close(losses.loss, expected)
    torch.testing.assert_close(losses.nll_loss, expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_nll_loss_is_cross_entropy_and_has_no_gradient(smoothing: float) -> None:
    logits = random_logits()
    nll_loss = loss_of_logits(logits, TARGETS, smoothing).nll_loss
    expected = F.cross_entropy(
        logits.flatten(0, 1), TARGETS.flatten(), ignore_index=PAD, reduction="sum"
    )
    torch.testing.assert_close(nll_loss, expected)
    assert not nll_loss.requires_grad


def test_by_hand() -> None:
    # Five tokens, the true one 0, padding 3, smoothing 0.3: the target is 0.7, 0.1, 0.1, 0, 0.1.
    # Its entropy is -(0.7 ln 0.7 + 3 x 0.1 ln 0.1) = 0.249672 + 0.690776 = 0.940448. Equal logits
    # make each 0.2: nll_loss ln 5 = 1.609438, smoothed 1.609438 - 0.940448 = 0.668990.
    logits = torch.zeros(1, 5, requires_grad=True)
    losses = loss_of_logits(logits, torch.tensor([0]), smoothing=0.3)
    assert losses.nll_loss.item() == pytest.approx(1.609438, abs=1e-6)
    assert losses.loss.item() == pytest.approx(0.668990, abs=1e-6)
    (gradient,) = torch.autograd.grad(losses.loss, logits)
    # 0.2 minus the target.
    torch.testing.assert_close(gradient, torch.tensor([[-0.5, 0.1, 0.1, 0.2, 0.1]]))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_nothing_but_padding_gives_zero(smoothing: float) -> None:
    logits = random_logits()
    losses = loss_of_logits(logits, torch.full_like(TARGETS, PAD), smoothing)
    assert losses.loss.item() == 0.0
    assert losses.nll_loss.item() == 0.0
    (gradient,) = torch.autograd.grad(losses.loss, logits)
    assert gradient.count_nonzero() == 0


def test_an_incoming_gradient_is_respected() -> None:
    logits = random_logits()
    (plain,) = torch.autograd.grad(loss_of_logits(logits, TARGETS, 0.1).loss, logits)
    (scaled,) = torch.autograd.grad(loss_of_logits(logits, TARGETS, 0.1).loss * -0.25, logits)
    torch.testing.assert_close(scaled, -0.25 * plain)


def test_the_least_is_zero_where_the_model_says_the_target() -> None:
    target = dense_target(TARGETS, smoothing=0.1)
    # The logarithm of nothing, at padding, is made very small instead of infinite.
    logits = target.clamp(min=1e-30).log().float().requires_grad_()
    loss = loss_of_logits(logits, TARGETS, 0.1).loss
    assert loss.item() == pytest.approx(0.0, abs=1e-5)
    (gradient,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(gradient, torch.zeros_like(logits), rtol=0.0, atol=1e-6)


def test_elsewhere_it_is_more_than_zero() -> None:
    target = dense_target(TARGETS, smoothing=0.1)
    for noise in (0.05, 0.5, 5.0):
        logits = target.clamp(min=1e-30).log().float()
        loss = loss_of_logits(logits + noise * torch.randn_like(logits), TARGETS, 0.1)
        assert loss.loss.item() > 1e-4


def test_a_constant_added_to_logits_changes_nothing() -> None:
    logits = random_logits()
    losses = loss_of_logits(logits, TARGETS, 0.1)
    shifted = loss_of_logits(logits + 50.0, TARGETS, 0.1)
    torch.testing.assert_close(shifted.loss, losses.loss, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(shifted.nll_loss, losses.nll_loss, rtol=1e-4, atol=1e-4)


def test_extreme_logits_stay_finite() -> None:
    logits = (1000.0 * torch.randn(*TARGETS.shape, SIZE)).requires_grad_()
    losses = loss_of_logits(logits, TARGETS, 0.1)
    (gradient,) = torch.autograd.grad(losses.loss, logits)
    assert losses.loss.isfinite()
    assert gradient.isfinite().all()


def test_sums_over_parts_are_the_sum_of_the_whole() -> None:
    logits = random_logits(requires_grad=False)
    whole = loss_of_logits(logits, TARGETS, 0.1)
    rows = [loss_of_logits(logits[row], TARGETS[row], 0.1) for row in range(TARGETS.size(0))]
    assert math.fsum(row.loss.item() for row in rows) == pytest.approx(whole.loss.item(), rel=1e-5)
    assert math.fsum(row.nll_loss.item() for row in rows) == pytest.approx(
        whole.nll_loss.item(), rel=1e-5
    )


@pytest.mark.long
def test_a_large_vocabulary_keeps_its_precision() -> None:
    size = 8000
    logits = (2.0 * torch.randn(64, size)).requires_grad_()
    targets = torch.randint(4, size, (64,))
    loss = loss_of_logits(logits, targets, 0.1).loss
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
    hidden_states = torch.randn(*TARGETS.shape, 6, requires_grad=True)
    layer = output_layer(6, SIZE)
    inputs = (hidden_states, layer.weight, layer.bias)
    loss = label_smoothed_loss(hidden_states, layer, TARGETS, PAD, 0.1).loss
    expected = dense_loss(layer(hidden_states), 0.1)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    torch.testing.assert_close(
        torch.autograd.grad(loss * 0.5, inputs),
        torch.autograd.grad(expected * 0.5, inputs),
        rtol=1e-4,
        atol=1e-5,
    )


def hidden_states_of(passes: int, d_model: int) -> Tensor:
    """Features of the batch read so many times, one reading below the other."""
    return torch.randn(passes * len(TARGETS), TARGETS.size(1), d_model, requires_grad=True)


READINGS = pytest.mark.parametrize(
    ("passes", "rdrop_alpha"), [(1, 0.0), (2, 3.0)], ids=["one reading", "two passes"]
)


@READINGS
@pytest.mark.parametrize("rows", [1, 2, 5, 12])
def test_chunks_change_nothing(
    rows: int, passes: int, rdrop_alpha: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden_states = hidden_states_of(passes, 6)
    layer = output_layer(6, SIZE)
    inputs = (hidden_states, layer.weight, layer.bias)
    whole = label_smoothed_loss(hidden_states, layer, TARGETS, PAD, 0.1, rdrop_alpha)
    monkeypatch.setitem(loss_module._CHUNK_ELEMENTS, "cpu", rows * passes * SIZE)
    assert len(loss_module._chunks(12, passes * SIZE, hidden_states.device)) == -(-12 // rows)
    cut = label_smoothed_loss(hidden_states, layer, TARGETS, PAD, 0.1, rdrop_alpha)
    torch.testing.assert_close(tuple(cut), tuple(whole))
    torch.testing.assert_close(
        torch.autograd.grad(cut.loss, inputs), torch.autograd.grad(whole.loss, inputs)
    )


@READINGS
def test_under_autocast_products_are_short_and_sums_are_not(
    passes: int, rdrop_alpha: float
) -> None:
    hidden_states = hidden_states_of(passes, 64)
    layer = output_layer(64, SIZE)
    inputs = (hidden_states, layer.weight, layer.bias)
    exact = label_smoothed_loss(hidden_states, layer, TARGETS, PAD, 0.1, rdrop_alpha)
    with torch.autocast("cpu", torch.bfloat16):
        rough = label_smoothed_loss(hidden_states, layer, TARGETS, PAD, 0.1, rdrop_alpha)
    assert rough.loss.dtype == rough.nll_loss.dtype == torch.float32
    assert rough.loss.item() != exact.loss.item()
    torch.testing.assert_close(tuple(rough), tuple(exact), rtol=2e-2, atol=2e-2)
    rough_gradients = torch.autograd.grad(rough.loss, inputs)
    exact_gradients = torch.autograd.grad(exact.loss, inputs)
    for short, long in zip(rough_gradients, exact_gradients, strict=True):
        assert short.dtype == torch.float32
        assert (short - long).norm() < 0.02 * long.norm()


# --- two passes ---------------------------------------------------------------------------------


def dense_loss_of_readings(
    hidden_states: Tensor, layer: nn.Linear, smoothing: float, rdrop_alpha: float
) -> Tensor:
    """The same by autograd, with whole softmaxes and KLDivLoss one way and the other."""
    logits = F.linear(hidden_states.double(), layer.weight.double(), layer.bias.double())
    first, second = logits.chunk(2)
    p, q = first.log_softmax(dim=2), second.log_softmax(dim=2)
    divergence = nn.KLDivLoss(reduction="none", log_target=True)
    both_ways = (divergence(q, p) + divergence(p, q)) / 2  # KLDivLoss(q, p) is KL(p || q)
    of_readings = (dense_loss(first, smoothing) + dense_loss(second, smoothing)) / 2
    loss: Tensor = of_readings + rdrop_alpha / 2 * both_ways[TARGETS != PAD].sum()
    return loss


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rdrop_alpha", [0.5, 5.0])
def test_two_readings_value_and_gradients_equal_the_dense_ones(
    rdrop_alpha: float, smoothing: float, dtype: torch.dtype
) -> None:
    layer = output_layer(6, SIZE).to(dtype)
    hidden_states = hidden_states_of(2, 6).detach().to(dtype).requires_grad_()
    inputs = (hidden_states, layer.weight, layer.bias)
    loss = label_smoothed_loss(hidden_states, layer, TARGETS, PAD, smoothing, rdrop_alpha).loss
    expected = dense_loss_of_readings(hidden_states, layer, smoothing, rdrop_alpha)
    exact = dtype == torch.float64
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12 if exact else 1e-5)
    gradients = torch.autograd.grad(loss * 0.5, inputs)
    torch.testing.assert_close(
        gradients,
        torch.autograd.grad(expected * 0.5, inputs),
        rtol=1e-10 if exact else 1e-4,
        atol=1e-10 if exact else 1e-5,
    )
    assert gradients[0][(TARGETS == PAD).repeat(2, 1)].count_nonzero() == 0


def test_two_readings_by_hand() -> None:
    # Distributions (0.5, 0.25, 0.25, 0) and (0.25, 0.5, 0.25, 0), the true token 0, no smoothing.
    # Cross-entropies are ln 2 and 2 ln 2; KL is 0.5 ln 2 - 0.25 ln 2 = 0.25 ln 2 both ways.
    p, q = [0.5, 0.25, 0.25, 1e-30], [0.25, 0.5, 0.25, 1e-30]
    hidden_states = torch.tensor([p, q]).log()
    layer = nn.Linear(4, 4)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(4))
        layer.bias.zero_()
    losses = label_smoothed_loss(hidden_states, layer, torch.tensor([0]), PAD, 0.0, rdrop_alpha=4.0)
    assert losses.nll_loss.item() == pytest.approx(1.5 * math.log(2))
    assert losses.loss.item() == pytest.approx((1.5 + 4.0 / 2 * 0.25) * math.log(2))


def test_equal_readings_give_the_plain_loss_whatever_their_divergence_costs() -> None:
    hidden_states = hidden_states_of(1, 6)
    layer = output_layer(6, SIZE)
    inputs = (hidden_states, layer.weight, layer.bias)
    plain = label_smoothed_loss(hidden_states, layer, TARGETS, PAD, 0.1)
    plain_gradients = torch.autograd.grad(plain.loss, inputs)
    for rdrop_alpha in (1.0, 1000.0):
        twice = hidden_states.repeat(2, 1, 1)
        losses = label_smoothed_loss(twice, layer, TARGETS, PAD, 0.1, rdrop_alpha)
        torch.testing.assert_close(tuple(losses), tuple(plain), rtol=1e-6, atol=0.0)
        torch.testing.assert_close(
            torch.autograd.grad(losses.loss, inputs),
            plain_gradients,
            rtol=1e-5,
            atol=1e-7 * (1.0 + rdrop_alpha),  # p + c p - c q, in the precision of c p
        )


def test_nll_loss_is_the_mean_of_both_passes() -> None:
    hidden_states = hidden_states_of(2, 6)
    layer = output_layer(6, SIZE)
    nll_loss = label_smoothed_loss(hidden_states, layer, TARGETS, PAD, 0.1, 3.0).nll_loss
    first, second = (
        label_smoothed_loss(reading, layer, TARGETS, PAD, 0.1).nll_loss
        for reading in hidden_states.chunk(2)
    )
    torch.testing.assert_close(nll_loss, (first + second) / 2)
    assert not nll_loss.requires_grad


def test_the_order_of_readings_does_not_matter() -> None:
    hidden_states = hidden_states_of(2, 6)
    layer = output_layer(6, SIZE)
    swapped = hidden_states.roll(len(TARGETS), dims=0)
    losses, others = (
        label_smoothed_loss(each, layer, TARGETS, PAD, 0.1, 3.0)
        for each in (hidden_states, swapped)
    )
    torch.testing.assert_close(tuple(losses), tuple(others))


def test_padding_of_either_reading_does_not_count() -> None:
    hidden_states = hidden_states_of(2, 6).detach()
    layer = output_layer(6, SIZE)
    losses = label_smoothed_loss(hidden_states, layer, TARGETS, PAD, 0.1, 3.0)
    for reading in range(2):
        other = hidden_states.clone()
        other.view(2, *TARGETS.shape, 6)[reading][TARGETS == PAD] += 5.0
        others = label_smoothed_loss(other, layer, TARGETS, PAD, 0.1, 3.0)
        torch.testing.assert_close(tuple(others), tuple(losses))
