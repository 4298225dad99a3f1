"""How a step is executed on a device: the one place where a GPU's training differs from a CPU's."""

from dataclasses import dataclass

import torch

from transformer_cli.model.graphs import graphs_enabled
from transformer_cli.ranks import Ranks


@dataclass(frozen=True)
class Execution:
    """How to execute training steps.

    The CPU computes as it is told, so it reads each result at once. A GPU computes asynchronously:
    it is kept busy only if the host never waits for it, has the next batch ready, and launches few
    kernels.
    """

    prefetch: int = 0
    """Batches made ahead on a thread."""
    pin_memory: bool = False
    """Whether batches are in pinned memory, from which copies to the device are asynchronous."""
    read_delay: int = 0
    """Steps after which the host reads whether a step's loss and gradient were finite."""
    graphs: bool = False
    """Whether to replay CUDA graphs."""
    fused: bool = True
    """Whether Adam's step is one kernel that skips itself; else the host decides about each."""
    cast_once: bool = False
    """Whether to cast weights once per step instead of at each use."""

    @classmethod
    def choose(
        cls, device: torch.device, precision: torch.dtype, ranks: Ranks, use_graphs: bool
    ) -> "Execution":
        """Return how to execute steps on ``device``."""
        if device.type != "cuda":
            # MPS' kernel is not known to skip itself.
            return cls(fused=device.type != "mps")
        alone = ranks.size == 1
        return cls(
            prefetch=4,
            pin_memory=True,
            # Ranks agree on each step over the host.
            read_delay=8 if alone else 0,
            # Not measured: graphs with the collectives of DistributedDataParallel.
            graphs=use_graphs and alone and graphs_enabled(),
            cast_once=precision == torch.bfloat16,
        )
