"""The ranks of a distributed job, their collectives, and the cores of a process.

torchrun starts the processes and sets their rank in the environment. Without torchrun there is one
process, and the collectives do nothing. torch is imported only if there are several.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

from transformer_cli.base.errors import TransformerCliError, is_out_of_memory

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Item = TypeVar("Item")
Result = TypeVar("Result", str, list[str])
Value = TypeVar("Value", str, int | None)

# Preparing a corpus may take hours, and all but the main process wait.
_BARRIER_TIMEOUT = timedelta(days=7)


@dataclass(frozen=True)
class Ranks:
    """This process' rank, and the world size."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # rank among the processes of this machine
    restarts: int = 0  # how often torchrun has restarted the job; meaningless with several machines
    machines: int = 1  # number of machines of the job
    group: Any = None  # Gloo process group, for collectives on the CPU; None before ``init``

    @classmethod
    def from_env(cls) -> "Ranks":
        """Return the ranks that torchrun has set, or a single process."""
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
        """True on rank 0, which writes files and messages."""
        return self.rank == 0

    @contextmanager
    def init(self, device: "torch.device") -> Iterator["Ranks"]:
        """Initialize the process group for the block; yield the connected ranks."""
        if self.size == 1:
            yield self
            return
        import torch.distributed as dist

        with _raise_ranks_error(), _stdout_for_results():
            group = self._connect(device)
        yield replace(self, group=group)
        # Not after an error, when others may never answer.
        dist.destroy_process_group()

    def _connect(self, device: "torch.device") -> Any:
        """Initialize the default process group; return one for collectives on the CPU."""
        import torch.distributed as dist
        from torch.distributed.distributed_c10d import PrefixStore
        from torch.distributed.rendezvous import rendezvous

        on_gpu = device.type == "cuda"
        # torchrun's store still holds the keys of restarted processes. With several machines it
        # counts restarts on each one separately; there it has to use a new store each time, with
        # TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1.
        prefix = f"start-{self.restarts}" if self.machines == 1 else "start"
        store, _, _ = next(rendezvous("env://", self.rank, self.size))
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
            store=PrefixStore(prefix, store),
            rank=self.rank,
            world_size=self.size,
            device_id=device if on_gpu else None,
        )
        # Of gloo alone, as monitored_barrier refuses a group that has nccl too. It inherits the
        # default group's device, which torch then asks gloo to connect to: gloo does nothing.
        return dist.new_group(backend="gloo")

    def barrier(self) -> None:
        """Wait until all ranks have reached this call, for days if need be."""
        if self.size == 1:
            return
        import torch.distributed as dist

        with _raise_ranks_error():
            dist.monitored_barrier(self.group, timeout=_BARRIER_TIMEOUT)

    def sum(self, values: Sequence[float]) -> list[float]:
        """Sum each of ``values`` over all ranks; integers below 2^53 exactly."""
        if self.size == 1:
            return list(values)
        import torch
        import torch.distributed as dist

        sums = torch.tensor(values, dtype=torch.float64)
        with _raise_ranks_error():
            dist.all_reduce(sums, group=self.group)
        return cast(list[float], sums.tolist())

    def broadcast(self, value: Value) -> Value:
        """Return the main process' ``value`` on all ranks."""
        if self.size == 1:
            return value
        return cast(Value, json.loads(self._gather(json.dumps(value).encode())[0]))

    def map(
        self, function: Callable[[Sequence[Item]], list[Result]], items: Sequence[Item]
    ) -> list[Result]:
        """Compute ``function(items)``, each rank on its share; all ranks get the whole result.

        It is called once on each rank. Neighbours, alike in cost, go to different ranks.
        """
        if self.size == 1:
            return function(items)
        own = json.dumps(function(items[self.rank :: self.size])).encode()
        results: list[Any] = [None] * len(items)
        for rank, share in enumerate(self._gather(own)):
            results[rank :: self.size] = json.loads(share)
        return results

    def _gather(self, data: bytes) -> list[bytes]:
        """Return every rank's bytes; torch's collectives for objects use pickle."""
        import torch
        import torch.distributed as dist

        own: Tensor = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        sizes = [0.0] * self.size
        sizes[self.rank] = len(data)
        sizes = self.sum(sizes)
        padded = torch.zeros(int(max(sizes)), dtype=torch.uint8)
        padded[: len(own)] = own
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        with _raise_ranks_error():
            dist.all_gather(parts, padded, group=self.group)
        return [
            part[: int(size)].numpy().tobytes() for part, size in zip(parts, sizes, strict=True)
        ]


SINGLE_PROCESS = Ranks()  # the only process of its job


class RanksError(TransformerCliError):
    """Another process of the same job is gone, or was never there."""

    @classmethod
    def of(cls, error: Exception) -> "RanksError":
        """Build the error from torch's, without gloo's source location and advice."""
        first_line = (str(error).splitlines() or [""])[0]
        reason = re.sub(r"^\[[^]]*\] ", "", first_line).partition(". ")[0]
        return cls(
            f"another process of this job has ended or cannot be reached ({reason}); "
            "see its message for the reason"
        )


def is_lost_process(error: Exception) -> bool:
    """Return whether torch has raised this error because another process is gone."""
    # NCCL and the store have error types of their own; gloo's messages name its source files.
    return type(error).__name__.startswith("Dist") or "/gloo/" in str(error)


@contextmanager
def _stdout_for_results() -> Iterator[None]:
    """Send to stderr what libraries print on stdout: Gloo does, in torch before 2.13."""
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)


@contextmanager
def _raise_ranks_error() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ValueError) as error:
        if is_out_of_memory(error):
            raise
        raise RanksError.of(error) from error


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
