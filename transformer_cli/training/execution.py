"""How a step is executed on a device: the one place where a GPU's training differs from a CPU's."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from transformer_cli.base.ranks import Ranks
from transformer_cli.config.choices import PrecisionName
from transformer_cli.config.schema import ModelConfig
from transformer_cli.data.batches import Batch
from transformer_cli.model.device import GraphPool, choose_precision, graph_stream, graphs_enabled
from transformer_cli.model.linear import autocast
from transformer_cli.model.transformer import EncoderLayer
from transformer_cli.runs.metrics_log import SESSION_KIND, Record

# Shapes of batches that are captured. Multi30k has 124 in batches of 2,560 tokens.
_MAX_GRAPHS = 256
WORTHWHILE = 1.15
"""Gain by bfloat16; less is not worth the rounding, and may be noise of the machine."""
_ROUNDS = 5
_SENTENCES, _TOKENS = 64, 20


@dataclass(frozen=True)
class Execution:
    """How to execute training steps.

    The CPU computes as it is told, so it reads each result at once. A GPU computes asynchronously:
    it is kept busy only if the host never waits for it, has the next batch ready, and launches few
    kernels.
    """

    prefetch: int = 0  # batches made ahead on a thread
    pin_memory: bool = False  # so that copies of batches to the device are asynchronous
    read_delay: int = 0  # steps after which the host reads whether a step was finite
    graphs: bool = False  # whether to replay CUDA graphs
    fused: bool = True  # whether Adam's step is one kernel that skips itself; else the host decides
    cast_once: bool = False  # whether to cast weights once per step instead of at each use

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


Out = TypeVar("Out")


class StepGraphs(Generic[Out]):
    """Runs forward and backward, as a graph where a shape was seen before.

    A text that is trained on in one shard has the same shapes in each epoch. Once there are as many
    graphs as fit, other shapes run without: with more shapes than that, each would be replaced
    before it is needed again. Gradients are accumulated into tensors that stay.
    """

    def __init__(
        self, run: Callable[[Batch, Float[Tensor, ""]], Out], device: torch.device
    ) -> None:
        self._run = run
        self._device = device
        self._pool = GraphPool(device)
        self._share = torch.ones((), device=device)
        self._seen: set[tuple[int, int, int]] = set()
        # By shape: the batch that the graph reads, and what replays it.
        self._captured: dict[tuple[int, int, int], tuple[Batch, Callable[[], Out]]] = {}

    def __call__(self, batch: Batch, share: Float[Tensor, ""]) -> Out:
        """Run ``batch``, which may be on the host; the losses stay valid until the next call."""
        if batch.shape in self._seen:
            self._seen.remove(batch.shape)
            own = replace(batch, ids=batch.ids.to(self._device, copy=True))
            captured = self._pool.capture(lambda: self._run(own, self._share))
            self._captured[batch.shape] = own, captured
        self._share.copy_(share)
        with graph_stream(self._device):
            if batch.shape not in self._captured:
                if len(self._captured) + len(self._seen) < _MAX_GRAPHS:
                    self._seen.add(batch.shape)
                return self._run(batch, self._share)
            own, replay = self._captured[batch.shape]
            own.ids.copy_(batch.ids, non_blocking=True)
            return replay()

    def clear(self) -> None:
        """Free all graphs; ``torch.cuda.empty_cache`` gives their memory back."""
        self._captured.clear()
        self._seen.clear()


def choose_training_precision(
    name: PrecisionName,
    device: torch.device,
    ranks: Ranks,
    records: Iterable[Record] = (),
    say: Callable[[str], object] = lambda _: None,
) -> torch.dtype:
    """Return the compute dtype of a training that ``--precision`` names; all ranks get the same.

    On a CPU 'auto' is what the run was trained with so far, and for a new run bfloat16 if a short
    measurement shows that it is faster here; ``say`` is told so. Elsewhere see
    ``choose_precision``.
    """
    if name != "auto" or device.type != "cpu":
        return choose_precision(name, device)
    earlier = [record.get("precision") for record in records if record["kind"] == SESSION_KIND]
    if earlier:
        if earlier[-1] != "bfloat16":
            return torch.float32
        if not has_bfloat16():
            say(
                "--precision auto: bfloat16, as the run began; this processor emulates it, so "
                "--precision float32 is faster"
            )
        return torch.bfloat16
    (gain,) = ranks.sum([measure_gain() if ranks.is_main else 0.0])
    if gain < WORTHWHILE:
        return torch.float32
    say(f"--precision auto: bfloat16, {gain:.1f} times as fast as float32 here")
    return torch.bfloat16


def has_bfloat16() -> bool:
    """Return whether this processor multiplies in bfloat16, instead of emulating it."""
    is_supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    return bool(is_supported())


def measure_gain() -> float:
    """Return how many times as fast as in float32 an encoder layer trains in bfloat16 here.

    It is 0 where the processor has no bfloat16.
    """
    if not has_bfloat16():
        return 0.0
    with torch.random.fork_rng(devices=[]):
        layer = EncoderLayer(ModelConfig(d_model=256, d_ff=1024, num_heads=4))
        x = torch.randn(_SENTENCES, _TOKENS, 256)
        mask = torch.ones(_SENTENCES, 1, 1, _TOKENS, dtype=torch.bool)
        dtypes = torch.float32, torch.bfloat16
        # By turns, and the fastest of each: other processes take their share of the cores.
        rounds = [[_time_step(layer, x, mask, dtype) for dtype in dtypes] for _ in range(_ROUNDS)]
    float32, bfloat16 = (min(of_round[place] for of_round in rounds) for place in (0, 1))
    return float32 / bfloat16


def _time_step(layer: EncoderLayer, x: Tensor, mask: Tensor, precision: torch.dtype) -> float:
    start = time.perf_counter()
    with autocast(x.device, precision):
        y = layer(x, mask)
    y.float().sum().backward()
    return time.perf_counter() - start
