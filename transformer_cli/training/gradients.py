"""Forward and backward of one optimizer step: all its batches, on all ranks, in chunks that fit."""

import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from transformer_cli.config.schema import TrainingConfig
from transformer_cli.data.batches import Batch, make_dummy_batch
from transformer_cli.errors import is_out_of_memory
from transformer_cli.model.device import empty_cache
from transformer_cli.model.linear import CastWeights, autocast
from transformer_cli.model.transformer import Transformer
from transformer_cli.ranks import Ranks
from transformer_cli.training.execution import Execution
from transformer_cli.training.graphs import StepGraphs
from transformer_cli.training.loss import Losses, label_smoothed_loss

# Shapes of batches that are captured. Multi30k has 124 in batches of 2,560 tokens.
_MAX_GRAPHS = 256


class GradientAccumulator:
    """Accumulate a step's gradients in the model's parameters.

    Args:
        model: on its device.
        config: settings of the loss.
        precision: compute dtype.
        seed: the experiment's.
        ranks: the processes that share the work; all get the same gradients.
        execution: how to execute steps on the model's device.
    """

    def __init__(
        self,
        model: Transformer,
        config: TrainingConfig,
        precision: torch.dtype,
        seed: int,
        ranks: Ranks,
        execution: Execution,
    ) -> None:
        self.chunks = 1
        """Number of chunks that each batch is split into to fit into memory."""
        self._model = model
        self._precision = precision
        self._seed = seed
        self._ranks = ranks
        self._execution = execution
        self._device = next(model.parameters()).device
        self._criterion: nn.Module = _ModelWithLoss(model, config)
        if ranks.size > 1:
            with warnings.catch_warnings():
                # Its replacement does not exist yet in torch 2.11.
                warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated")
                self._criterion = DistributedDataParallel(
                    self._criterion, broadcast_buffers=False, gradient_as_bucket_view=True
                )
        self._cast_weights = CastWeights(model, precision) if execution.cast_once else None
        self._forward_backward = StepGraphs(
            self._run, self._device, capacity=_MAX_GRAPHS if execution.graphs else 0
        )

    def accumulate(self, step: int, batches: Sequence[Batch], tgt_tokens: int) -> Losses:
        """Run forward and backward; the gradients are those of the mean loss per target token.

        Out of memory, each batch is split into twice as many chunks from then on; the step is the
        same but for dropout's draws. Several ranks cannot do so, since the others are already
        waiting for this one's gradients.

        Args:
            step: seeds dropout, with the experiment's seed and a batch's index in the step.
            batches: this rank's; there may be none at an epoch's end.
            tgt_tokens: target tokens of the step on all ranks.

        Returns:
            This rank's losses, summed over its target tokens.
        """
        while True:
            try:
                return self._accumulate(step, batches, tgt_tokens)
            except (MemoryError, RuntimeError) as error:
                most_rows = max((batch.shape[0] for batch in batches), default=0)
                can_split = self._ranks.size == 1 and self.chunks < most_rows
                if not (can_split and is_out_of_memory(error)):
                    raise
            # Outside the handler, so that the traceback no longer holds memory.
            self.chunks *= 2
            self._forward_backward.clear()
            self._model.zero_grad(set_to_none=not self._execution.graphs)
            empty_cache()

    def _accumulate(self, step: int, batches: Sequence[Batch], tgt_tokens: int) -> Losses:
        loss = torch.zeros((), device=self._device)
        nll_loss = torch.zeros((), device=self._device)
        # DistributedDataParallel averages over the ranks; their sum is wanted.
        share = torch.full((), tgt_tokens / self._ranks.size, device=self._device)
        if self._cast_weights is not None:
            self._cast_weights.update()
        # Every rank has to take part in each step.
        batches = batches or [make_dummy_batch()]
        for index, batch in enumerate(batches):
            self._seed_dropout(step, self._ranks.rank + index * self._ranks.size)
            chunks = _chunk_rows(batch, self.chunks)
            for number, chunk in enumerate(chunks):
                is_last = index == len(batches) - 1 and number == len(chunks) - 1
                with self._all_reduce_if(is_last):
                    losses = self._forward_backward(chunk, share)
                loss += losses.loss
                nll_loss += losses.nll_loss
        return Losses(loss, nll_loss)

    def _run(self, batch: Batch, share: Float[Tensor, ""]) -> Losses:
        """Run forward and backward on a batch on the device; return its losses."""
        with autocast(self._device, self._precision):
            losses: Losses = self._criterion(batch.src, batch.tgt_in, batch.tgt_out)
        (losses.loss / share).backward()  # type: ignore[no-untyped-call]
        return Losses(losses.loss.detach(), losses.nll_loss)

    def _seed_dropout(self, step: int, index: int) -> None:
        # Draws are a function of the seed, the step and the batch's index in it, whatever came
        # before and whichever rank draws. They are mixed into 32 bits, since torch's CPU generator
        # ignores the others.
        mixed = np.random.SeedSequence([self._seed, step, index]).generate_state(1)
        torch.manual_seed(int(mixed[0]))

    def _all_reduce_if(self, is_last: bool) -> AbstractContextManager[None]:
        """Return a context that all-reduces gradients in the last backward of a step only."""
        if is_last or not isinstance(self._criterion, DistributedDataParallel):
            return nullcontext()
        return self._criterion.no_sync()


class _ModelWithLoss(nn.Module):
    """The model with its loss: the module that DistributedDataParallel wraps."""

    def __init__(self, model: Transformer, config: TrainingConfig) -> None:
        super().__init__()
        self.model = model
        self._smoothing = config.label_smoothing
        self._consistency = config.rdrop_alpha

    def forward(
        self,
        src: Int[Tensor, "batch src"],
        tgt_in: Int[Tensor, "batch tgt"],
        tgt_out: Int[Tensor, "batch tgt"],
    ) -> Losses:
        # R-Drop: two forward passes with different dropout, stacked in one batch.
        passes = 2 if self._consistency else 1
        return label_smoothed_loss(
            self.model.hidden_states(src.repeat(passes, 1), tgt_in.repeat(passes, 1)),
            self.model.output,
            tgt_out,
            self.model.pad_id,
            self._smoothing,
            self._consistency,
        )


def _chunk_rows(batch: Batch, chunks: int) -> list[Batch]:
    """Split a batch by rows into at most ``chunks``."""
    if chunks == 1:
        return [batch]
    rows = batch.shape[0]
    size = -(-rows // chunks)
    return [batch.select(slice(start, start + size)) for start in range(0, rows, size)]
