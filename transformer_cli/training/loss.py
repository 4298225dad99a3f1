"""Label-smoothed cross-entropy, exactly as the paper's authors define it, in closed form.

With it, where it is asked for, the divergence between two readings of a batch (R-Drop).
"""

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_cli.model.products import product_type, times_transposed

# Logits made at a time. Few enough on a CPU to stay in its caches from product to product.
_CHUNK_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 27}


class Losses(NamedTuple):
    """Sums over the target tokens of a batch, padding aside; natural logarithms.

    Where the batch was read twice, each token counts once, by the mean of both readings.
    """

    smoothed: Float[Tensor, ""]
    """What is minimised."""
    unsmoothed: Float[Tensor, ""]
    """Negative log-likelihood of the true tokens, without a gradient: for perplexity."""


def label_smoothed_loss(
    features: Float[Tensor, "*read d_model"],
    output: nn.Linear,
    tgt_out: Int[Tensor, "*batch"],
    pad_id: int,
    smoothing: float,
    consistency: float = 0.0,
) -> Losses:
    """Kullback-Leibler divergence of the model's distribution from the smoothed target, summed.

    The target gives the true token 1 - smoothing, every other token but padding
    smoothing / (V - 2), and padding nothing (Vaswani et al. 2017, section 5.4, after Szegedy et
    al. 2015). That dense target is never made, and neither are the logits of a whole batch: they
    are made, turned into gradients and forgotten some rows at a time.

    With ``consistency`` the features are those of the batch read twice, with other dropout: first
    all of its rows, then all of them again. What is minimised is then the mean of both readings'
    loss, plus consistency / 2 times the mean of the divergences of each from the other. That is
    half of equation 4 of Liang et al. 2021, "R-Drop" (arXiv 2106.14448), whose alpha this is.

    Args:
        features: what the output layer turns into logits.
        output: that layer, d_model to V >= 3 tokens, with a bias. Under autocast its products run
            in autocast's type.
        tgt_out: the true tokens; positions that hold ``pad_id`` do not count.
        pad_id: the padding token.
        smoothing: probability given to wrong tokens, in [0, 1).
        consistency: weight of the two readings' divergence; 0 where there is one reading.
    """
    low = product_type(features)
    # Autocast would make the softmax float32, just for the next product to make it short again.
    with torch.autocast(features.device.type, enabled=False):
        divergence = _SmoothedDivergence.apply(  # type: ignore[no-untyped-call]
            features.reshape(2 if consistency else 1, -1, features.size(-1)),
            output.weight,
            output.bias,
            tgt_out.flatten(),
            pad_id,
            smoothing,
            consistency,
            low,
        )
    return Losses(*divergence)


class _SmoothedDivergence(torch.autograd.Function):
    """The divergence, whose gradients are known as soon as its value is.

    By a logit the gradient is the softmax minus the target. The target's even share is the same for
    all tokens but padding, so its part of the gradients is added to their sums, not to every logit.
    """

    @staticmethod
    def forward(
        ctx: Any,
        features: Float[Tensor, "reading token d_model"],
        weight: Float[Tensor, "tgt_size d_model"],
        bias: Float[Tensor, " tgt_size"],
        targets: Int[Tensor, " token"],
        pad_id: int,
        smoothing: float,
        consistency: float,
        low: torch.dtype,
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        readings, tgt_size = len(features), weight.size(0)
        share = smoothing / (tgt_size - 2)
        of_true_target = 1.0 - smoothing - share  # beside the share that it has as all have
        low_weight, low_bias = weight.to(low), bias.to(low)
        real = (targets != pad_id).to(features.dtype)
        real_features = features * real[:, None]
        weight_of_all = weight.sum(dim=0) - weight[pad_id]
        bias_of_all = bias.sum() - bias[pad_id]

        smoothed, unsmoothed = features.new_zeros(()), features.new_zeros(())
        grad_features = torch.empty_like(features)
        grad_weight, grad_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        for rows in _chunks(len(targets), readings * tgt_size, features.device):
            # All rows of the first reading, then the same ones of the second.
            read = features[:, rows].flatten(0, 1)
            real_rows = real[rows].repeat(readings)
            true_tokens = targets[rows].repeat(readings)[:, None]
            logits = times_transposed(read.to(low), low_weight, low_bias)
            of_true = logits.gather(1, true_tokens)[:, 0]
            probabilities = logits.softmax(dim=1)
            # The sum of exponentials, from the one probability that is never near zero.
            log_sum = logits.amax(dim=1) - probabilities.amax(dim=1).to(features.dtype).log()
            of_true = of_true - log_sum
            of_all = read @ weight_of_all + bias_of_all - (tgt_size - 1) * log_sum
            unsmoothed -= real_rows @ of_true
            smoothed -= real_rows @ (of_true_target * of_true + share * of_all)

            gradient = probabilities
            if consistency:
                divergence, gradient = _divergence_of_readings(logits, probabilities, consistency)
                smoothed += real[rows] @ divergence.to(features.dtype)
            # Not scatter_add_, which copies the whole of it, twice.
            places = torch.arange(len(gradient), device=gradient.device)
            gradient[places, true_tokens[:, 0]] -= of_true_target
            grad_read = times_transposed(gradient, low_weight.t())
            grad_features[:, rows] = grad_read.view_as(features[:, rows])
            # Transposed: oneDNN copies the first of two transposed factors, here the small one.
            real_read = real_features[:, rows].flatten(0, 1).to(low)
            grad_weight += times_transposed(real_read.t(), gradient.t()).t()
            grad_bias += real_rows[None].to(low).mm(gradient)[0]
        grad_features.sub_(share * weight_of_all).mul_(real[:, None])
        shares = torch.full_like(bias, share)
        shares[pad_id] = 0.0
        grad_weight.addr_(shares, real_features.sum(dim=(0, 1)), alpha=-1.0)
        grad_bias -= shares * (readings * real.sum())

        ctx.save_for_backward(grad_features, grad_weight, grad_bias)
        ctx.readings = readings
        unsmoothed /= readings
        ctx.mark_non_differentiable(unsmoothed)
        entropy = _target_entropy(smoothing, tgt_size) * real.sum()
        return smoothed / readings - entropy, unsmoothed

    @staticmethod
    def backward(
        ctx: Any, grad_smoothed: Float[Tensor, ""], grad_unsmoothed: Float[Tensor, ""]
    ) -> tuple[Tensor | None, ...]:
        scale = grad_smoothed / ctx.readings
        gradients = [gradient * scale for gradient in ctx.saved_tensors]
        return *gradients, None, None, None, None, None


def _divergence_of_readings(
    logits: Float[Tensor, "row tgt_size"],
    probabilities: Float[Tensor, "row tgt_size"],
    consistency: float,
) -> tuple[Float[Tensor, " token"], Float[Tensor, "row tgt_size"]]:
    """The weighted divergence of two readings, and its gradient plus ``probabilities``.

    With p and q their distributions and d the first one's logits minus the second's,
    KL(p || q) + KL(q || p) = E_p[d] - E_q[d]: the sums of exponentials cancel. By the first one's
    logits its gradient is p (d - E_p[d] + 1) - q, by the second one's q (E_q[d] - d + 1) - p.
    """
    first, second = logits.chunk(2)
    p, q = probabilities.chunk(2)
    half = consistency / 2
    difference = first - second
    mean_p = (p * difference).sum(dim=1, keepdim=True)
    mean_q = (q * difference).sum(dim=1, keepdim=True)
    # In place: memory of this size costs as much to get as to write.
    gradient = torch.empty_like(probabilities)
    by_first, by_second = gradient.chunk(2)
    torch.mul(p, 1.0 + half - half * mean_p, out=by_first)
    by_first.addcmul_(p, difference, value=half).sub_(q, alpha=half)
    torch.mul(q, 1.0 + half + half * mean_q, out=by_second)
    by_second.addcmul_(q, difference, value=-half).sub_(p, alpha=half)
    return half * (mean_p - mean_q)[:, 0], gradient


def _chunks(tokens: int, tgt_size: int, device: torch.device) -> list[slice]:
    size = max(1, _CHUNK_ELEMENTS[device.type] // tgt_size)
    return [slice(start, start + size) for start in range(0, tokens, size)]


def _target_entropy(smoothing: float, tgt_size: int) -> float:
    """Entropy of the smoothed target: the least cross-entropy there can be."""
    entropy = -(1.0 - smoothing) * math.log(1.0 - smoothing)
    if smoothing > 0.0:
        entropy -= smoothing * math.log(smoothing / (tgt_size - 2))
    return entropy
