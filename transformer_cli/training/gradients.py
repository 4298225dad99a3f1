"""Forward and backward of an optimizer step: all its batches, on all ranks, in parts that fit."""

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
from transformer_cli.training.execution import Execution, StepGraphs
from transformer_cli.training.loss import Losses, label_smoothed_loss


class GradientAccumulator:
    """Accumulate a step's gradients in the model's parameters, the same ones on all ranks."""

    def __init__(
        self,
        model: Transformer,
        config: TrainingConfig,
        precision: torch.dtype,
        seed: int,
        ranks: Ranks,
        execution: Execution,
    ) -> None:
        self.micro_batches = 1
        """Number of parts that each batch is split into to fit into memory."""
        self._model = model
        self._autocast = autocast(next(model.parameters()).device, precision)
        self._seed = seed
        self._ranks = ranks
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
        self._graphs = StepGraphs(self._run, self._device) if execution.graphs else None

    def accumulate(self, step: int, batches: Sequence[Batch], tgt_tokens: int) -> Losses:
        """Run forward and backward of this rank's batches; return its losses, summed over tokens.

        The gradients are those of the mean loss per target token, of which the step has
        ``tgt_tokens`` on all ranks. There may be no batch at an epoch's end.

        Out of memory, each batch is split into twice as many micro-batches from then on; the step
        is the same but for dropout's draws. Several ranks cannot do so, since the others are
        already waiting for this one's gradients.
        """
        while True:
            try:
                return self._accumulate(step, batches, tgt_tokens)
            except (MemoryError, RuntimeError) as error:
                max_rows = max((batch.shape[0] for batch in batches), default=0)
                can_split = self._ranks.size == 1 and self.micro_batches < max_rows
                if not (can_split and is_out_of_memory(error)):
                    raise
            # Outside the handler, so that the traceback no longer holds memory.
            self.micro_batches *= 2
            if self._graphs is not None:
                self._graphs.clear()
            # Graphs add to the tensors that they were captured with.
            self._model.zero_grad(set_to_none=self._graphs is None)
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
            parts = _split_rows(batch, self.micro_batches)
            for number, part in enumerate(parts):
                is_last = index == len(batches) - 1 and number == len(parts) - 1
                with self._all_reduce_if(is_last):
                    losses = (self._graphs or self._run)(part, share)
                loss += losses.loss
                nll_loss += losses.nll_loss
        return Losses(loss, nll_loss)

    def _run(self, batch: Batch, share: Float[Tensor, ""]) -> Losses:
        """Run forward and backward on a batch; return its losses."""
        batch = batch.to(self._device)
        with self._autocast:
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
        """All-reduce gradients in the last backward of a step only."""
        if is_last or not isinstance(self._criterion, DistributedDataParallel):
            return nullcontext()
        return self._criterion.no_sync()


class _ModelWithLoss(nn.Module):
    """The model with its loss: the module that DistributedDataParallel wraps."""

    def __init__(self, model: Transformer, config: TrainingConfig) -> None:
        super().__init__()
        self.model = model
        self._smoothing = config.label_smoothing
        self._rdrop_alpha = config.rdrop_alpha

    def forward(
        self,
        src: Int[Tensor, "batch src"],
        tgt_in: Int[Tensor, "batch tgt"],
        tgt_out: Int[Tensor, "batch tgt"],
    ) -> Losses:
        # R-Drop: two forward passes with different dropout, stacked in one batch.
        passes = 2 if self._rdrop_alpha else 1
        return label_smoothed_loss(
            self.model.hidden_states(src.repeat(passes, 1), tgt_in.repeat(passes, 1)),
            self.model.output,
            tgt_out,
            self.model.pad_id,
            self._smoothing,
            self._rdrop_alpha,
        )


def _split_rows(batch: Batch, parts: int) -> list[Batch]:
    """Split a batch by rows into at most ``parts``."""
    if parts == 1:
        return [batch]
    rows = batch.shape[0]
    size = -(-rows // parts)
    return [batch.select(slice(start, start + size)) for start in range(0, rows, size)]
