"""Label-smoothed cross-entropy, exactly as the paper's authors define it, in closed form."""

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Losses(NamedTuple):
    """Sums over the target tokens of a batch, padding aside; natural logarithms."""

    smoothed: Float[Tensor, ""]
    """What is minimised."""
    unsmoothed: Float[Tensor, ""]
    """Negative log-likelihood of the true tokens, without a gradient: for perplexity."""


def label_smoothed_loss(
    logits: Float[Tensor, "*batch tgt_size"],
    tgt_out: Int[Tensor, "*batch"],
    pad_id: int,
    smoothing: float,
) -> Losses:
    """Kullback-Leibler divergence of the model's distribution from the smoothed target, summed.

    The target gives the true token 1 - smoothing, every other token but padding
    smoothing / (V - 2), and padding nothing (Vaswani et al. 2017, section 5.4, after Szegedy et
    al. 2015). That dense target is never made.

    Args:
        logits: unnormalised scores over V >= 3 tokens.
        tgt_out: the true tokens; positions that hold ``pad_id`` do not count.
        pad_id: the padding token.
        smoothing: probability given to wrong tokens, in [0, 1).
    """
    divergence = _SmoothedDivergence.apply(  # type: ignore[no-untyped-call]
        logits.flatten(0, -2), tgt_out.flatten(), pad_id, smoothing
    )
    return Losses(*divergence)


class _SmoothedDivergence(torch.autograd.Function):
    """The divergence, with the one V-wide gradient that it needs: the softmax minus the target."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: Float[Tensor, "token tgt_size"],
        targets: Int[Tensor, " token"],
        pad_id: int,
        smoothing: float,
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        share = smoothing / (logits.size(1) - 2)
        log_probabilities = logits.log_softmax(dim=1, dtype=torch.float32)
        of_true = log_probabilities.gather(1, targets[:, None])[:, 0]
        of_all = log_probabilities.sum(dim=1) - log_probabilities[:, pad_id]
        real = targets != pad_id
        cross_entropy = -(1.0 - smoothing - share) * of_true - share * of_all
        least = _target_entropy(smoothing, logits.size(1))
        smoothed = ((cross_entropy - least) * real).sum()
        unsmoothed = -(of_true * real).sum()

        ctx.save_for_backward(log_probabilities, targets, real)
        ctx.pad_id, ctx.smoothing, ctx.share, ctx.dtype = pad_id, smoothing, share, logits.dtype
        ctx.mark_non_differentiable(unsmoothed)
        return smoothed, unsmoothed

    @staticmethod
    def backward(
        ctx: Any, grad_smoothed: Float[Tensor, ""], grad_unsmoothed: Float[Tensor, ""]
    ) -> tuple[Float[Tensor, "token tgt_size"], None, None, None]:
        log_probabilities, targets, real = ctx.saved_tensors
        gradient = log_probabilities.exp().sub_(ctx.share)
        gradient[:, ctx.pad_id] += ctx.share
        rest_of_true = torch.full_like(gradient[:, :1], ctx.share + ctx.smoothing - 1.0)
        gradient.scatter_add_(1, targets[:, None], rest_of_true)
        gradient.mul_((real * grad_smoothed)[:, None])
        return gradient.to(ctx.dtype), None, None, None


def _target_entropy(smoothing: float, tgt_size: int) -> float:
    """Entropy of the smoothed target: the least cross-entropy there can be."""
    entropy = -(1.0 - smoothing) * math.log(1.0 - smoothing)
    if smoothing > 0.0:
        entropy -= smoothing * math.log(smoothing / (tgt_size - 2))
    return entropy
