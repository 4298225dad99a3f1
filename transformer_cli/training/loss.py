"""The loss and its gradients, for a batch and for a whole optimizer step.

The loss is label-smoothed cross-entropy in closed form, as in "Attention Is All You Need" (2017).
Optionally, the divergence between two forward passes over a batch is added (R-Drop). The ranks
divide a step's batches among them; a single process splits batches that do not fit into memory.
"""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_cli.base.errors import is_out_of_memory
from transformer_cli.base.ranks import Ranks
from transformer_cli.config.schema import TrainingConfig
from transformer_cli.data.batches import Batch, make_dummy_batch
from transformer_cli.model.device import empty_cache
from transformer_cli.model.linear import autocast, compute_dtype, linear_no_grad
from transformer_cli.model.transformer import Transformer

# Number of logits computed at a time; on a CPU, they fit into its caches.
_CHUNK_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 27, "mps": 1 << 25}
_TINY = torch.finfo(torch.float32).tiny


class Losses(NamedTuple):
    """The losses of a batch in nats, summed over its target tokens without padding.

    With two forward passes (R-Drop), each token counts once, with the mean of both passes.
    """

    loss: Float[Tensor, ""]  # the label-smoothed loss, which training minimises
    nll_loss: Float[Tensor, ""]
    """Negative log-likelihood of the true tokens, without gradient; used for perplexity."""


def label_smoothed_loss(
    hidden_states: Float[Tensor, "*rows d_model"],
    output: nn.Linear,
    tgt_out: Int[Tensor, "*batch"],
    pad_id: int,
    smoothing: float,
    rdrop_alpha: float = 0.0,
) -> Losses:
    """Return the KL divergence of the model's distribution from the smoothed target, summed.

    The target gives the true token 1 - smoothing, padding 0, and every other token
    smoothing / (V - 2), where V is the size of the vocabulary (Vaswani et al. 2017, section 5.4,
    after Szegedy et al. 2015). Neither this dense target nor the logits of a whole batch are ever
    in memory: the function computes the logits of some rows, turns them into gradients, frees them,
    and goes on to the next rows.

    With ``rdrop_alpha``, ``hidden_states`` come from two forward passes with different dropout: all
    rows of the first pass, then all rows of the second. The loss is then the mean of the losses of
    both passes, plus rdrop_alpha / 2 times the mean of the two KL divergences between them. This is
    half of equation 4 of Liang et al. 2021, "R-Drop" (arXiv 2106.14448), with the same alpha.

    ``output`` is the output layer, with a bias and at least 3 tokens; under autocast its matmuls
    run in autocast's dtype. Positions where ``tgt_out`` is ``pad_id`` do not count.
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
    """The loss function, which computes the gradients in its forward pass.

    The gradient with respect to a logit is the softmax minus the target. The uniform part of the
    target is the same for all tokens but padding, so its gradient is computed from sums of weights
    and of hidden states, not for each logit.
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
        # Transposed like the parts that the matmul returns, as adding across strides is slow. The
        # weight has no gradient if it is tied to a frozen embedding.
        grad_weight = None
        if ctx.needs_input_grad[1]:
            grad_weight = torch.zeros_like(weight.t(), memory_format=torch.contiguous_format)
        grad_bias = torch.zeros_like(bias)
        for rows in _chunks(len(targets), passes * tgt_size, hidden_states.device):
            # These are the rows of the first pass, then the same rows of the second.
            hidden = hidden_states[:, rows].flatten(0, 1)
            real_rows = real[rows].repeat(passes)
            true_tokens = targets[rows].repeat(passes)
            logits = linear_no_grad(hidden.to(dtype), cast_weight, cast_bias)
            probabilities = logits.softmax(dim=1)
            true_logits = logits.gather(1, true_tokens[:, None])[:, 0]
            true_probabilities = probabilities.gather(1, true_tokens[:, None])[:, 0].to(real.dtype)
            # If a model diverges, this underflows, and its real loss is higher than the result. To
            # avoid that, a sum of exponentials would need another pass over all logits.
            true_log_probs = true_probabilities.clamp_min(_TINY).log()
            log_sum = true_logits - true_log_probs
            sum_log_probs = hidden @ weight_sum + bias_sum - (tgt_size - 1) * log_sum
            nll_loss -= real_rows @ true_log_probs
            loss -= real_rows @ (confidence * true_log_probs + uniform * sum_log_probs)
            gradient = probabilities
            if rdrop_alpha:
                divergence, gradient = _rdrop_divergence(logits, probabilities, rdrop_alpha)
                loss += real[rows] @ divergence.to(hidden_states.dtype)
            # Not scatter_add_, which copies the whole tensor twice.
            gradient[torch.arange(len(gradient), device=gradient.device), true_tokens] -= confidence
            grad_rows = linear_no_grad(gradient, cast_weight.t())
            grad_hidden[:, rows] = grad_rows.view_as(hidden_states[:, rows])
            if grad_weight is not None:
                # oneDNN copies the first of two transposed operands, so this is the small one.
                real_rows_hidden = real_hidden[:, rows].flatten(0, 1).to(dtype)
                grad_weight += linear_no_grad(real_rows_hidden.t(), gradient.t())
            grad_bias += real_rows[None].to(dtype).mm(gradient)[0]
        grad_hidden.sub_(uniform * weight_sum).mul_(real[:, None])
        # These are the gradients of the target's uniform part. Assigning 0 to the padding row would
        # copy the number to a GPU and wait for it; ``zero_`` does not.
        uniform_row = torch.full_like(grad_bias, uniform)
        uniform_row[pad_id].zero_()
        grad_bias -= uniform_row * (passes * real.sum())
        if grad_weight is not None:
            grad_weight = grad_weight.t().contiguous()
            grad_weight.addr_(uniform_row, real_hidden.sum(dim=(0, 1)), alpha=-1.0)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        ctx.passes = passes
        nll_loss /= passes
        ctx.mark_non_differentiable(nll_loss)
        return loss / passes - _target_entropy(smoothing, tgt_size) * real.sum(), nll_loss

    @staticmethod
    def backward(
        ctx: Any, grad_loss: Float[Tensor, ""], grad_nll_loss: Float[Tensor, ""]
    ) -> tuple[Tensor | None, ...]:
        scale = grad_loss / ctx.passes
        gradients = [None if saved is None else saved * scale for saved in ctx.saved_tensors]
        return *gradients, None, None, None, None, None


def _chunks(tokens: int, tgt_size: int, device: torch.device) -> list[slice]:
    size = max(1, _CHUNK_ELEMENTS[device.type] // tgt_size)
    return [slice(start, start + size) for start in range(0, tokens, size)]


def _rdrop_divergence(
    logits: Float[Tensor, "row tgt_size"],
    probabilities: Float[Tensor, "row tgt_size"],
    rdrop_alpha: float,
) -> tuple[Float[Tensor, " token"], Float[Tensor, "row tgt_size"]]:
    """Return the weighted divergence of two passes, and its gradient plus ``probabilities``.

    Let x and y be the logits of the passes, p and q their softmax, and d = x - y. Then
    KL(p || q) + KL(q || p) = E_p[d] - E_q[d], because the normalisers cancel. The gradient for x is
    p (d - E_p[d] + 1) - q; the gradient for y is q (E_q[d] - d + 1) - p.
    """
    first, second = logits.chunk(2)
    p, q = probabilities.chunk(2)
    half = rdrop_alpha / 2
    difference = first - second
    mean_p = (p * difference).sum(dim=1, keepdim=True)
    mean_q = (q * difference).sum(dim=1, keepdim=True)
    # In place, because allocating this much memory takes as long as writing it.
    gradient = torch.empty_like(probabilities)
    by_first, by_second = gradient.chunk(2)
    torch.mul(p, 1.0 + half - half * mean_p, out=by_first)
    by_first.addcmul_(p, difference, value=half).sub_(q, alpha=half)
    torch.mul(q, 1.0 + half + half * mean_q, out=by_second)
    by_second.addcmul_(q, difference, value=-half).sub_(p, alpha=half)
    return half * (mean_p - mean_q)[:, 0], gradient


def _target_entropy(smoothing: float, tgt_size: int) -> float:
    """Return the entropy of the smoothed target, which is the lowest possible cross-entropy."""
    entropy = -(1.0 - smoothing) * math.log(1.0 - smoothing)
    if smoothing > 0.0:
        entropy -= smoothing * math.log(smoothing / (tgt_size - 2))
    return entropy


class GradientAccumulator:
    """An object that sums a step's gradients in the model's parameters, equally on all ranks."""

    def __init__(
        self,
        model: Transformer,
        config: TrainingConfig,
        precision: torch.dtype,
        seed: int,
        ranks: Ranks,
    ) -> None:
        self.micro_batches = 1  # number of parts that each batch is split into to fit into memory
        self._model = model
        self._autocast = autocast(next(model.parameters()).device, precision)
        self._seed = seed
        self._ranks = ranks
        self._device = next(model.parameters()).device
        self._criterion = ranks.wrap(_ModelWithLoss(model, config))

    def accumulate(self, step: int, batches: Sequence[Batch], tgt_tokens: int) -> Losses:
        """Run forward and backward on this rank's batches; return its losses, summed over tokens.

        The gradients are those of the mean loss per target token; all ranks together have
        ``tgt_tokens`` in this step. At the end of an epoch, a rank may have no batch.

        If memory runs out, each batch is split into twice as many micro-batches from then on. This
        changes only what dropout draws. With several ranks no batch can be split then, because the
        others are already waiting for this rank's gradients.
        """
        while True:
            try:
                return self._accumulate(step, batches, tgt_tokens)
            except (MemoryError, RuntimeError) as error:
                max_rows = max((batch.shape[0] for batch in batches), default=0)
                can_split = self._ranks.size == 1 and self.micro_batches < max_rows
                if not (can_split and is_out_of_memory(error)):
                    raise
            # This is outside the handler, so that the traceback no longer holds memory.
            self.micro_batches *= 2
            self._model.zero_grad()
            empty_cache()

    def _accumulate(self, step: int, batches: Sequence[Batch], tgt_tokens: int) -> Losses:
        totals = torch.zeros(2, device=self._device)  # of both ``Losses``
        # The ranks average their gradients, but we need the sum.
        share = tgt_tokens / self._ranks.size
        # Every rank must take part in each step.
        batches = batches or [make_dummy_batch()]
        for index, batch in enumerate(batches):
            # Random draws depend only on the seed, the step and the batch's index in it, not on
            # earlier draws or on the rank. The numbers are mixed into 32 bits, because torch's CPU
            # generator ignores all others.
            source = [self._seed, step, self._ranks.rank + index * self._ranks.size]
            torch.manual_seed(int(np.random.SeedSequence(source).generate_state(1)[0]))
            size = -(-batch.shape[0] // self.micro_batches)
            for start in range(0, batch.shape[0], size):
                is_last = index == len(batches) - 1 and start + size >= batch.shape[0]
                part = batch.select(slice(start, start + size)) if self.micro_batches > 1 else batch
                # Ranks exchange gradients once per step.
                with nullcontext() if is_last else self._ranks.no_sync(self._criterion):
                    totals += torch.stack(self._run(part, share))
        return Losses(*totals)

    def _run(self, batch: Batch, share: float) -> Losses:
        """Run forward, and backward from the loss divided by ``share``; return the losses."""
        batch = batch.to(self._device)
        with self._autocast:
            losses: Losses = self._criterion(batch.src, batch.tgt_in, batch.tgt_out)
        (losses.loss / share).backward()  # type: ignore[no-untyped-call]
        return Losses(losses.loss.detach(), losses.nll_loss)


class _ModelWithLoss(nn.Module):
    """The model with its loss, as one module that ``Ranks.wrap`` can wrap."""

    def __init__(self, model: Transformer, config: TrainingConfig) -> None:
        super().__init__()
        self.model = model
        self._config = config

    def forward(
        self,
        src: Int[Tensor, "batch src"],
        tgt_in: Int[Tensor, "batch tgt"],
        tgt_out: Int[Tensor, "batch tgt"],
    ) -> Losses:
        # R-Drop: two forward passes with different dropout, stacked in one batch.
        passes = 2 if self._config.rdrop_alpha else 1
        return label_smoothed_loss(
            self.model.hidden_states(src.repeat(passes, 1), tgt_in.repeat(passes, 1)),
            self.model.output,
            tgt_out,
            self.model.pad_id,
            self._config.label_smoothing,
            self._config.rdrop_alpha,
        )
