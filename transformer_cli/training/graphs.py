"""Forward and backward as CUDA graphs, one for each shape of batch."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from transformer_cli.data.batches import Batch
from transformer_cli.model.graphs import GraphPool, graph_stream
from transformer_cli.training.loss import Losses

ForwardBackward = Callable[[Batch, Float[Tensor, ""]], Losses]


class _Captured(NamedTuple):
    batch: Batch
    replay: Callable[[], Losses]


class StepGraphs:
    """Runs forward and backward, as a graph where a shape was seen before.

    A text that is trained on in one shard has the same shapes in each epoch. Once there are as many
    graphs as fit, other shapes run without: with more shapes than that, each would be replaced
    before it is needed again.

    Args:
        run: forward and backward of a batch on the device, given the tokens to divide its loss by.
            GradientAccumulator are accumulated into tensors that stay.
        device: of the model.
        capacity: most graphs that are kept; 0 for none.
    """

    def __init__(self, run: ForwardBackward, device: torch.device, capacity: int) -> None:
        self._run = run
        self._device = device
        self._capacity = capacity
        self._pool = GraphPool(device)
        self._share = torch.ones((), device=device)
        self._seen: set[tuple[int, int, int]] = set()
        self._captured: dict[tuple[int, int, int], _Captured] = {}

    def __call__(self, batch: Batch, share: Float[Tensor, ""]) -> Losses:
        """Run ``batch``, which may be on the host; the losses stay valid until the next call."""
        if self._capacity == 0:
            return self._run(batch.to(self._device), share)
        captured = self._captured.get(batch.shape)
        if captured is None and batch.shape in self._seen:
            captured = self._capture(batch)
        self._share.copy_(share)
        with graph_stream(self._device):
            if captured is None:
                self._remember(batch.shape)
                return self._run(batch.to(self._device), self._share)
            captured.batch.ids.copy_(batch.ids, non_blocking=True)
            return captured.replay()

    def clear(self) -> None:
        """Free all graphs; ``torch.cuda.empty_cache`` gives their memory back."""
        self._captured.clear()
        self._seen.clear()

    def _remember(self, shape: tuple[int, int, int]) -> None:
        if len(self._captured) + len(self._seen) < self._capacity:
            self._seen.add(shape)

    def _capture(self, batch: Batch) -> _Captured:
        self._seen.remove(batch.shape)
        own = replace(batch, ids=batch.ids.to(self._device, copy=True))
        replay = self._pool.capture(lambda: self._run(own, self._share))
        self._captured[batch.shape] = captured = _Captured(own, replay)
        return captured
