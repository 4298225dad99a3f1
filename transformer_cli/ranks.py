"""The processes that work on one job together: which one this is, and how they agree.

torchrun starts them and tells each its number, its rank, in the environment. A process that nobody
started so is the only one, and none of this costs it anything. torch is imported when there are
several, not before.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from transformer_cli.errors import RanksError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Item = TypeVar("Item")
Result = TypeVar("Result", str, list[str])

# Preparing a corpus may take hours, for which all but one process wait.
_PATIENCE = timedelta(days=7)


@dataclass(frozen=True)
class Ranks:
    """This process' place among those of its job."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """Its place among those of its machine."""
    restarts: int = 0
    """How often torchrun has started the job again; tells nothing where it has several machines."""
    machines: int = 1
    """How many the job has."""
    group: Any = None
    """What they agree through: on the CPU, beside the gradients. None before they are joined."""

    @classmethod
    def from_env(cls) -> "Ranks":
        """The place that torchrun has given to this process; alone, if it has not."""
        try:
            return cls(
                rank=int(os.environ["RANK"]),
                size=int(os.environ["WORLD_SIZE"]),
                local_rank=int(os.environ["LOCAL_RANK"]),
                restarts=int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
                machines=int(os.environ.get("GROUP_WORLD_SIZE", "1")),
            )
        except (KeyError, ValueError):
            return cls()

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files and speaks to the user."""
        return self.rank == 0

    @contextmanager
    def init(self, device: "torch.device") -> Iterator["Ranks"]:
        """Have the processes connected while the block runs; give the ranks that can talk.

        Args:
            device: where this one computes.

        Raises:
            RanksError: they cannot be connected.
        """
        if self.size == 1:
            yield self
            return
        import torch.distributed as dist
        from torch.distributed.distributed_c10d import PrefixStore
        from torch.distributed.rendezvous import rendezvous

        on_gpu = device.type == "cuda"
        with _lost_ones_named():
            store, _, _ = next(rendezvous("env://", self.rank, self.size))
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
                store=PrefixStore(self._start, store),
                rank=self.rank,
                world_size=self.size,
                device_id=device if on_gpu else None,
            )
            group = dist.new_group(backend="gloo")
        yield replace(self, group=group)
        # After an error, others may never answer: then the process' end has to do.
        dist.destroy_process_group()

    @property
    def _start(self) -> str:
        """What the processes that are started together have in common.

        Started again by torchrun, they find what the dead ones left in its store. On several
        machines, torchrun counts starts on each by itself: there its store has to be a new one each
        time, which TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 makes it.
        """
        return f"start-{self.restarts}" if self.machines == 1 else "start"

    def barrier(self) -> None:
        """Wait until all are here, however long that takes."""
        if self.size == 1:
            return
        import torch.distributed as dist

        with _lost_ones_named():
            dist.monitored_barrier(self.group, timeout=_PATIENCE)

    def sum(self, values: Sequence[float]) -> list[float]:
        """Each of ``values`` summed over all ranks; integers below 2^53 exactly."""
        if self.size == 1:
            return list(values)
        import torch
        import torch.distributed as dist

        sums = torch.tensor(values, dtype=torch.float64)
        with _lost_ones_named():
            dist.all_reduce(sums, group=self.group)
        return [float(each) for each in sums.tolist()]

    def map(
        self, function: Callable[[Sequence[Item]], list[Result]], items: Sequence[Item]
    ) -> list[Result]:
        """``function(items)``, each rank working on its share; all of them get the whole result.

        Args:
            function: gives a line, or a list of lines, an item. It is called once on each rank.
            items: the same on all ranks. Neighbours, alike in cost, go to different ones.
        """
        if self.size == 1:
            return function(items)
        shares = self._gather(json.dumps(function(items[self.rank :: self.size])).encode())
        results: list[Any] = [None] * len(items)
        for rank, share in enumerate(shares):
            results[rank :: self.size] = json.loads(share)
        return results

    def _gather(self, data: bytes) -> list[bytes]:
        """Every rank's bytes. torch's own way to send objects would pickle them."""
        import torch
        import torch.distributed as dist

        own: Tensor = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        sizes = [0.0] * self.size
        sizes[self.rank] = len(data)
        sizes = self.sum(sizes)
        padded = torch.zeros(int(max(sizes)), dtype=torch.uint8)
        padded[: len(own)] = own
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        with _lost_ones_named():
            dist.all_gather(parts, padded, group=self.group)
        return [
            part[: int(size)].numpy().tobytes() for part, size in zip(parts, sizes, strict=True)
        ]


ALONE = Ranks()
"""The only process of its job."""


@contextmanager
def _lost_ones_named() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise RanksError.of(error) from error
