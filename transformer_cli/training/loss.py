"""Label-smoothed cross-entropy, exactly as the paper's authors define it, in closed form."""

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_cli.model.products import product_type, times_transposed

# Logits made at a time. Few enough on a CPU to stay in its caches from product to product.
_CHUNK_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 27}


class Losses(NamedTuple):
    """Sums over the target tokens of a batch, padding aside; natural logarithms."""

    smoothed: Float[Tensor, ""]
    """What is minimised."""
    unsmoothed: Float[Tensor, ""]
    """Negative log-likelihood of the true tokens, without a gradient: for perplexity."""


def label_smoothed_loss(
    features: Float[Tensor, "*batch d_model"],
    output: nn.Linear,
    tgt_out: Int[Tensor, "*batch"],
    pad_id: int,
    smoothing: float,
) -> Losses:
    """Kullback-Leibler divergence of the model's distribution from the smoothed target, summed.

    The target gives the true token 1 - smoothing, every other token but padding
    smoothing / (V - 2), and padding nothing (Vaswani et al. 2017, section 5.4, after Szegedy et
    al. 2015). That dense target is never made, and neither are the logits of a whole batch: they
    are made, turned into gradients and forgotten some rows at a time.

    Args:
        features: what the output layer turns into logits.
        output: that layer, d_model to V >= 3 tokens, with a bias. Under autocast its products run
            in autocast's type.
        tgt_out: the true tokens; positions that hold ``pad_id`` do not count.
        pad_id: the padding token.
        smoothing: probability given to wrong tokens, in [0, 1).
    """
    low = product_type(features)
    # Autocast would make the softmax float32, just for the next product to make it short again.
    with torch.autocast(features.device.type, enabled=False):
        divergence = _SmoothedDivergence.apply(  # type: ignore[no-untyped-call]
            features.flatten(0, -2),
            output.weight,
            output.bias,
            tgt_out.flatten(),
            pad_id,
            smoothing,
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
        features: Float[Tensor, "token d_model"],
        weight: Float[Tensor, "tgt_size d_model"],
        bias: Float[Tensor, " tgt_size"],
        targets: Int[Tensor, " token"],
        pad_id: int,
        smoothing: float,
        low: torch.dtype,
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        tgt_size = weight.size(0)
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
        for rows in _chunks(len(targets), tgt_size, features.device):
            logits = times_transposed(features[rows].to(low), low_weight, low_bias)
            true_tokens = targets[rows, None]
            of_true = logits.gather(1, true_tokens)[:, 0]
            probabilities = logits.softmax(dim=1)
            # The sum of exponentials, from the one probability that is never near zero.
            log_sum = logits.amax(dim=1) - probabilities.amax(dim=1).to(features.dtype).log()
            of_true = of_true - log_sum
            of_all = features[rows] @ weight_of_all + bias_of_all - (tgt_size - 1) * log_sum
            unsmoothed -= real[rows] @ of_true
            smoothed -= real[rows] @ (of_true_target * of_true + share * of_all)

            gradient = probabilities.scatter_add_(
                1, true_tokens, probabilities.new_full(true_tokens.shape, -of_true_target)
            )
            grad_features[rows] = times_transposed(gradient, low_weight.t())
            # Transposed: oneDNN copies the first of two transposed factors, here the small one.
            grad_weight += times_transposed(real_features[rows].to(low).t(), gradient.t()).t()
            grad_bias += real[None, rows].to(low).mm(gradient)[0]
        grad_features.sub_(share * weight_of_all).mul_(real[:, None])
        shares = torch.full_like(bias, share)
        shares[pad_id] = 0.0
        grad_weight.addr_(shares, real_features.sum(dim=0), alpha=-1.0)
        grad_bias -= shares * real.sum()

        ctx.save_for_backward(grad_features, grad_weight, grad_bias)
        ctx.mark_non_differentiable(unsmoothed)
        return smoothed - _target_entropy(smoothing, tgt_size) * real.sum(), unsmoothed

    @staticmethod
    def backward(
        ctx: Any, grad_smoothed: Float[Tensor, ""], grad_unsmoothed: Float[Tensor, ""]
    ) -> tuple[Tensor | None, ...]:
        gradients = [gradient * grad_smoothed for gradient in ctx.saved_tensors]
        return *gradients, None, None, None, None


def _chunks(tokens: int, tgt_size: int, device: torch.device) -> list[slice]:
    size = max(1, _CHUNK_ELEMENTS[device.type] // tgt_size)
    return [slice(start, start + size) for start in range(0, tokens, size)]


def _target_entropy(smoothing: float, tgt_size: int) -> float:
    """Entropy of the smoothed target: the least cross-entropy there can be."""
    entropy = -(1.0 - smoothing) * math.log(1.0 - smoothing)
    if smoothing > 0.0:
        entropy -= smoothing * math.log(smoothing / (tgt_size - 2))
    return entropy
