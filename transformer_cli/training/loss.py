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
    real = tgt_out != pad_id
    divergence = _SmoothedDivergence.apply(  # type: ignore[no-untyped-call]
        logits[real], tgt_out[real], pad_id, smoothing
    )
    return Losses(*divergence)


class _SmoothedDivergence(torch.autograd.Function):
    """The divergence with a gradient of one V-wide tensor: softmax(logits) minus the target."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: Float[Tensor, "token tgt_size"],
        targets: Int[Tensor, " token"],
        pad_id: int,
        smoothing: float,
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        num_tokens, tgt_size = logits.shape
        dtype = logits.dtype
        logits = logits.float()
        share = smoothing / (tgt_size - 2)
        log_normaliser = logits.logsumexp(dim=1)
        true_logits = logits.gather(1, targets[:, None])[:, 0]
        unsmoothed = (log_normaliser - true_logits).sum()
        # Sum over all tokens but padding of log softmax, without making the log softmax.
        real_log_probabilities = (
            logits.sum(dim=1) - logits[:, pad_id] - (tgt_size - 1) * log_normaliser
        ).sum()
        cross_entropy = (1.0 - smoothing - share) * unsmoothed - share * real_log_probabilities
        smoothed = cross_entropy - num_tokens * _target_entropy(smoothing, tgt_size)

        ctx.save_for_backward(logits, log_normaliser, targets)
        ctx.pad_id, ctx.smoothing, ctx.share, ctx.dtype = pad_id, smoothing, share, dtype
        ctx.mark_non_differentiable(unsmoothed)
        return smoothed, unsmoothed

    @staticmethod
    def backward(
        ctx: Any, grad_smoothed: Float[Tensor, ""], grad_unsmoothed: Float[Tensor, ""]
    ) -> tuple[Float[Tensor, "token tgt_size"], None, None, None]:
        logits, log_normaliser, targets = ctx.saved_tensors
        gradient = (logits - log_normaliser[:, None]).exp_().sub_(ctx.share)
        gradient[:, ctx.pad_id] += ctx.share
        true_share = torch.full_like(log_normaliser[:, None], ctx.share + ctx.smoothing - 1.0)
        gradient.scatter_add_(1, targets[:, None], true_share)
        return gradient.mul_(grad_smoothed).to(ctx.dtype), None, None, None


def _target_entropy(smoothing: float, tgt_size: int) -> float:
    """Entropy of the smoothed target: the least cross-entropy there can be."""
    entropy = -(1.0 - smoothing) * math.log(1.0 - smoothing)
    if smoothing > 0.0:
        entropy -= smoothing * math.log(smoothing / (tgt_size - 2))
    return entropy
