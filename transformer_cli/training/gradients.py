"""The gradients of one optimizer step: of all its batches, on all ranks, in pieces that fit."""

import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from transformer_cli.config.schema import TrainingConfig
from transformer_cli.data.batches import Batch, no_pairs
from transformer_cli.errors import is_out_of_memory
from transformer_cli.model.device import autocast
from transformer_cli.model.transformer import Transformer
from transformer_cli.ranks import Ranks
from transformer_cli.training.loss import Losses, label_smoothed_loss


class Sums(NamedTuple):
    """Losses of a step, summed over this rank's target tokens."""

    smoothed: Float[Tensor, ""]
    unsmoothed: Float[Tensor, ""]


class Gradients:
    """Adds up a step's gradients in the model's parameters.

    Args:
        model: on its device.
        config: how its loss is made.
        precision: type of the matrix products.
        seed: the experiment's.
        ranks: who shares the work; all get the same gradients.
    """

    def __init__(
        self,
        model: Transformer,
        config: TrainingConfig,
        precision: torch.dtype,
        seed: int,
        ranks: Ranks,
    ) -> None:
        self.pieces = 1
        """How many parts of its rows each batch is worked off in."""
        self._model = model
        self._precision = precision
        self._seed = seed
        self._ranks = ranks
        self._device = next(model.parameters()).device
        self._losses: nn.Module = _Losses(model, config)
        if ranks.size > 1:
            with warnings.catch_warnings():
                # What is to come in its place is not there yet in torch 2.11.
                warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated")
                self._losses = DistributedDataParallel(
                    self._losses, broadcast_buffers=False, gradient_as_bucket_view=True
                )

    def add_up(self, step: int, batches: Sequence[Batch], tgt_tokens: int) -> Sums:
        """Make the gradients of the mean loss of a target token.

        Where memory does not suffice, each batch is worked off in twice as many pieces, from then
        on; the step is the same but for what dropout draws. Several ranks cannot do so, since the
        others are already waiting for this one's gradients.

        Args:
            step: decides what dropout draws, with the seed and a batch's place in the step.
            batches: this rank's; perhaps none at an epoch's end.
            tgt_tokens: target tokens of the step on all ranks, however it is cut up.
        """
        while True:
            try:
                return self._add_up(step, batches, tgt_tokens)
            except (MemoryError, RuntimeError) as error:
                most_rows = max((len(batch.src) for batch in batches), default=0)
                halvable = self._ranks.size == 1 and self.pieces < most_rows
                if not (halvable and is_out_of_memory(error)):
                    raise
            # Out here the error is gone, and with it the memory that its traceback held.
            self.pieces *= 2
            self._model.zero_grad()
            if self._device.type == "cuda":
                torch.cuda.empty_cache()

    def _add_up(self, step: int, batches: Sequence[Batch], tgt_tokens: int) -> Sums:
        smoothed = torch.zeros((), device=self._device)
        unsmoothed = torch.zeros((), device=self._device)
        # Gradients are averaged over the ranks, and each rank's part of the mean is wanted.
        share = tgt_tokens / self._ranks.size
        # All ranks have to take part in each step.
        batches = batches or [no_pairs().to(self._device)]
        for place, batch in enumerate(batches):
            self._seed_dropout(step, self._ranks.rank + place * self._ranks.size)
            parts = _parts(batch, self.pieces)
            for number, rows in enumerate(parts):
                is_last = place == len(batches) - 1 and number == len(parts) - 1
                with self._exchanging(is_last):
                    with autocast(self._device, self._precision):
                        losses: Losses = self._losses(*rows)
                    (losses.smoothed / share).backward()  # type: ignore[no-untyped-call]
                smoothed += losses.smoothed.detach()
                unsmoothed += losses.unsmoothed
        return Sums(smoothed, unsmoothed)

    def _seed_dropout(self, step: int, place: int) -> None:
        # Draws depend on the seed, the step and the batch's place in it alone, not on what happened
        # before or on who draws. They are mixed into 32 bits, as torch's CPU generator takes no
        # notice of the others.
        mixed = np.random.SeedSequence([self._seed, step, place]).generate_state(1)
        torch.manual_seed(int(mixed[0]))

    def _exchanging(self, is_last: bool) -> AbstractContextManager[None]:
        """Ranks add up their gradients once a step, while the last ones are made."""
        if is_last or not isinstance(self._losses, DistributedDataParallel):
            return nullcontext()
        return self._losses.no_sync()


class _Losses(nn.Module):
    """A model with its loss on top: the pass that torch's data parallelism watches."""

    def __init__(self, model: Transformer, config: TrainingConfig) -> None:
        super().__init__()
        self.model = model
        self._smoothing = config.label_smoothing
        self._consistency = config.consistency

    def forward(
        self,
        src: Int[Tensor, "batch src"],
        tgt_in: Int[Tensor, "batch tgt"],
        tgt_out: Int[Tensor, "batch tgt"],
    ) -> Losses:
        # Read twice, a batch meets two sets of dropped units.
        readings = 2 if self._consistency else 1
        return label_smoothed_loss(
            self.model.features(src.repeat(readings, 1), tgt_in.repeat(readings, 1)),
            self.model.output,
            tgt_out,
            self.model.pad_id,
            self._smoothing,
            self._consistency,
        )


def _parts(batch: Batch, pieces: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Source, target in and target out of ``pieces`` runs of a batch's rows, or of fewer."""
    sides = (batch.src, batch.tgt_in, batch.tgt_out)
    return list(zip(*(side.chunk(pieces) for side in sides), strict=True))
