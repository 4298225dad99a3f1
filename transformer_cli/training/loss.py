"""Label-smoothed cross-entropy, exactly as the paper's authors define it, in closed form.

Optionally with the divergence between two forward passes over a batch (R-Drop).
"""

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_cli.model.linear import compute_dtype, linear_no_grad

# Logits computed at a time: few enough on a CPU to stay in its caches.
_CHUNK_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 27, "mps": 1 << 25}


class Losses(NamedTuple):
    """Sums over target tokens, padding excluded, in nats.

    With two forward passes (R-Drop) each token counts once, by the mean of both.
    """

    loss: Float[Tensor, ""]
    """The label-smoothed loss, which training minimises."""
    nll_loss: Float[Tensor, ""]
    """Negative log-likelihood of the true tokens, without gradient: for perplexity."""


def label_smoothed_loss(
    hidden_states: Float[Tensor, "*rows d_model"],
    output: nn.Linear,
    tgt_out: Int[Tensor, "*batch"],
    pad_id: int,
    smoothing: float,
    rdrop_alpha: float = 0.0,
) -> Losses:
    """Return the KL divergence of the model's distribution from the smoothed target, summed.

    The target gives the true token 1 - smoothing, every other token but padding
    smoothing / (V - 2), and padding nothing (Vaswani et al. 2017, section 5.4, after Szegedy et
    al. 2015). That dense target is never materialised, and neither are the logits of a whole
    batch: they are computed, turned into gradients and freed some rows at a time.

    With ``rdrop_alpha``, ``hidden_states`` are those of two forward passes with different dropout,
    stacked: all rows, then all rows again. The loss is then the mean of both passes' loss plus
    rdrop_alpha / 2 times the mean of the two KL divergences between them. That is half of equation
    4 of Liang et al. 2021, "R-Drop" (arXiv 2106.14448), whose alpha this is.

    Args:
        hidden_states: the decoder's output.
        output: the output layer, d_model to V >= 3 tokens, with a bias. Under autocast its matmuls
            run in autocast's dtype.
        tgt_out: the true tokens; positions that hold ``pad_id`` do not count.
        pad_id: the padding token.
        smoothing: probability given to wrong tokens, in [0, 1).
        rdrop_alpha: weight of the divergence between two passes; 0 for a single pass.
    """
    dtype = compute_dtype(hidden_states)
    # Autocast would return a float32 softmax, which the next matmul would cast down again.
    with torch.autocast(hidden_states.device.type, enabled=False):
        losses = _LabelSmoothedLoss.apply(  # type: ignore[no-untyped-call]
            hidden_states.reshape(2 if rdrop_alpha else 1, -1, hidden_states.size(-1)),
            output.weight,
            output.bias,
            tgt_out.flatten(),
            pad_id,
            smoothing,
            rdrop_alpha,
            dtype,
        )
    return Losses(*losses)


class _LabelSmoothedLoss(torch.autograd.Function):
    """The loss, whose gradients are computed in the forward pass.

    The gradient by a logit is the softmax minus the target. The target's uniform part is the same
    for all tokens but padding, so its gradient is added to their sums, not to every logit.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden_states: Float[Tensor, "pass token d_model"],
        weight: Float[Tensor, "tgt_size d_model"],
        bias: Float[Tensor, " tgt_size"],
        targets: Int[Tensor, " token"],
        pad_id: int,
        smoothing: float,
        rdrop_alpha: float,
        dtype: torch.dtype,
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        passes, tgt_size = len(hidden_states), weight.size(0)
        uniform = smoothing / (tgt_size - 2)
        confidence = 1.0 - smoothing - uniform  # on top of the uniform part
        cast_weight, cast_bias = weight.to(dtype), bias.to(dtype)
        real = (targets != pad_id).to(hidden_states.dtype)
        real_hidden = hidden_states * real[:, None]
        weight_sum, bias_sum = weight.sum(dim=0) - weight[pad_id], bias.sum() - bias[pad_id]

        loss, nll_loss = hidden_states.new_zeros(()), hidden_states.new_zeros(())
        grad_hidden = torch.empty_like(hidden_states)
        # Transposed, as its parts come out of the matmul: adding across strides is slow. The
        # weight is frozen if it is tied to a frozen embedding.
        grad_weight = (
            torch.zeros_like(weight.t(), memory_format=torch.contiguous_format)
            if ctx.needs_input_grad[1]
            else None
        )
        grad_bias = torch.zeros_like(bias)
        for rows in _chunks(len(targets), passes * tgt_size, hidden_states.device):
            # The rows of the first pass, then the same rows of the second.
            hidden = hidden_states[:, rows].flatten(0, 1)
            real_rows = real[rows].repeat(passes)
            true_tokens = targets[rows].repeat(passes)
            logits = linear_no_grad(hidden.to(dtype), cast_weight, cast_bias)
            probabilities = logits.softmax(dim=1)
            log_sum = _logsumexp(logits, probabilities, hidden_states.dtype)
            true_log_probs = logits.gather(1, true_tokens[:, None])[:, 0] - log_sum
            sum_log_probs = hidden @ weight_sum + bias_sum - (tgt_size - 1) * log_sum
            nll_loss -= real_rows @ true_log_probs
            loss -= real_rows @ (confidence * true_log_probs + uniform * sum_log_probs)

            gradient = probabilities
            if rdrop_alpha:
                divergence, gradient = _rdrop_divergence(logits, probabilities, rdrop_alpha)
                loss += real[rows] @ divergence.to(hidden_states.dtype)
            # Not scatter_add_, which copies the whole tensor twice.
            row_ids = torch.arange(len(gradient), device=gradient.device)
            gradient[row_ids, true_tokens] -= confidence
            grad_rows = linear_no_grad(gradient, cast_weight.t())
            grad_hidden[:, rows] = grad_rows.view_as(hidden_states[:, rows])
            if grad_weight is not None:
                # Transposed: oneDNN copies the first of two transposed operands, here the small
                # one.
                real_rows_hidden = real_hidden[:, rows].flatten(0, 1).to(dtype)
                grad_weight += linear_no_grad(real_rows_hidden.t(), gradient.t())
            grad_bias += real_rows[None].to(dtype).mm(gradient)[0]
        grad_hidden.sub_(uniform * weight_sum).mul_(real[:, None])
        uniform_row = torch.full_like(bias, uniform)
        uniform_row[pad_id] = 0.0
        if grad_weight is not None:
            grad_weight = grad_weight.t().contiguous()
            grad_weight.addr_(uniform_row, real_hidden.sum(dim=(0, 1)), alpha=-1.0)
        grad_bias -= uniform_row * (passes * real.sum())

        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        ctx.passes = passes
        nll_loss /= passes
        ctx.mark_non_differentiable(nll_loss)
        entropy = _target_entropy(smoothing, tgt_size) * real.sum()
        return loss / passes - entropy, nll_loss

    @staticmethod
    def backward(
        ctx: Any, grad_loss: Float[Tensor, ""], grad_nll_loss: Float[Tensor, ""]
    ) -> tuple[Tensor | None, ...]:
        scale = grad_loss / ctx.passes
        gradients = [None if each is None else each * scale for each in ctx.saved_tensors]
        return *gradients, None, None, None, None, None


def _rdrop_divergence(
    logits: Float[Tensor, "row tgt_size"],
    probabilities: Float[Tensor, "row tgt_size"],
    rdrop_alpha: float,
) -> tuple[Float[Tensor, " token"], Float[Tensor, "row tgt_size"]]:
    """Return the weighted divergence of two passes, and its gradient plus ``probabilities``.

    With p and q their distributions and d the first pass' logits minus the second's,
    KL(p || q) + KL(q || p) = E_p[d] - E_q[d]: the normalisers cancel. Its gradient by the first
    pass' logits is p (d - E_p[d] + 1) - q, by the second's q (E_q[d] - d + 1) - p.
    """
    first, second = logits.chunk(2)
    p, q = probabilities.chunk(2)
    half = rdrop_alpha / 2
    difference = first - second
    mean_p = (p * difference).sum(dim=1, keepdim=True)
    mean_q = (q * difference).sum(dim=1, keepdim=True)
    # In place: allocating this much memory costs as much as writing it.
    gradient = torch.empty_like(probabilities)
    by_first, by_second = gradient.chunk(2)
    torch.mul(p, 1.0 + half - half * mean_p, out=by_first)
    by_first.addcmul_(p, difference, value=half).sub_(q, alpha=half)
    torch.mul(q, 1.0 + half + half * mean_q, out=by_second)
    by_second.addcmul_(q, difference, value=-half).sub_(p, alpha=half)
    return half * (mean_p - mean_q)[:, 0], gradient


def _logsumexp(
    logits: Float[Tensor, "row tgt_size"],
    probabilities: Float[Tensor, "row tgt_size"],
    dtype: torch.dtype,
) -> Float[Tensor, " row"]:
    # From the one probability of a row that is never near zero.
    return logits.amax(dim=1) - probabilities.amax(dim=1).to(dtype).log()


def _chunks(tokens: int, tgt_size: int, device: torch.device) -> list[slice]:
    size = max(1, _CHUNK_ELEMENTS[device.type] // tgt_size)
    return [slice(start, start + size) for start in range(0, tokens, size)]


def _target_entropy(smoothing: float, tgt_size: int) -> float:
    """Return the entropy of the smoothed target, the minimum of the cross-entropy."""
    entropy = -(1.0 - smoothing) * math.log(1.0 - smoothing)
    if smoothing > 0.0:
        entropy -= smoothing * math.log(smoothing / (tgt_size - 2))
    return entropy
