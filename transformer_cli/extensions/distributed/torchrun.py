"""The processes that torchrun has started, and the collective operations between them.

torchrun sets each process's rank in the environment. This module is also imported just to find the
rank for messages, so it imports torch only in functions that compute with it.
"""

import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from transformer_cli.base.errors import TransformerCliError, UsageError, is_out_of_memory
from transformer_cli.base.ranks import SINGLE_PROCESS, Item, Ranks, Result, Value

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

# Preparing a corpus may take hours, while all processes but the main one wait.
_BARRIER_TIMEOUT = timedelta(days=7)


def find_ranks() -> Ranks:
    """Return the ranks that torchrun has set for this process; without torchrun, SINGLE_PROCESS."""
    try:
        size = int(os.environ["WORLD_SIZE"])
        machines = int(os.environ.get("GROUP_WORLD_SIZE", "1"))
        kind = ConnectedRanks if size > 1 else StartedRanks
        return kind(
            rank=int(os.environ["RANK"]),
            size=size,
            local_rank=int(os.environ["LOCAL_RANK"]),
            local_size=size // machines,
            restarts=int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
            machines=machines,
        )
    except (KeyError, ValueError, ZeroDivisionError):
        return SINGLE_PROCESS


@dataclass(frozen=True)
class StartedRanks(Ranks):
    """The processes of a job, i.e. of one call of torchrun, which may restart all of them."""

    restarts: int = 0  # how often torchrun restarted the job; meaningless on several machines
    machines: int = 1  # number of machines of the job

    def may_overwrite(self, run: Path) -> bool:
        """Return False after a restart, when --overwrite would rename the run the job has begun."""
        if self.machines > 1:
            # torchrun does not report restarts there.
            raise UsageError(
                "--overwrite: does not work on several machines, where torchrun may start it "
                f"twice; remove {run} yourself, or choose another --run-dir"
            )
        return not self.restarts


@dataclass(frozen=True)
class ConnectedRanks(StartedRanks):
    """The processes of a job that has more than one process; ``init`` connects them."""

    group: Any = None  # Gloo process group, for collectives on the CPU; None before ``init``

    def check_command(self, command: str) -> None:
        """Raise UsageError unless ``command`` is train, which alone uses several processes."""
        if command != "train":
            raise UsageError(f"{command}: uses only one process; start it without torchrun")

    def place(self, device: "torch.device") -> "torch.device":
        """Return the device of this rank: its GPU, or the CPU. Raise UsageError for MPS."""
        if device.type == "mps":
            raise UsageError("`device` mps: works in one process only; start it without torchrun")
        if device.type != "cuda":
            return device
        import torch

        if self.local_rank >= torch.cuda.device_count():
            raise RanksError(
                f"no CUDA device is left for process {self.local_rank + 1} of this machine, which "
                f"has {torch.cuda.device_count()} of them; start one process for each, or use "
                "`device` cpu"
            )
        torch.cuda.set_device(self.local_rank)
        return torch.device("cuda", self.local_rank)

    @contextmanager
    def init(self, device: "torch.device") -> Iterator[Ranks]:
        """Initialize the process group for the block; raise RanksError if another process ends."""
        import torch.distributed as dist

        with _raise_ranks_error(), _stdout_for_results():
            group = self._connect(device)
        try:
            yield replace(self, group=group)
        except Exception as error:
            # NCCL's errors may be both.
            if _is_lost_process(error) and not is_out_of_memory(error):
                raise RanksError.of(error) from error
            raise
        # Skip this after an error, as other processes may never answer.
        dist.destroy_process_group()

    def _connect(self, device: "torch.device") -> Any:
        """Initialize the default process group; return a second one, for collectives on the CPU."""
        import torch.distributed as dist
        from torch.distributed.distributed_c10d import PrefixStore
        from torch.distributed.rendezvous import rendezvous

        on_gpu = device.type == "cuda"
        # torchrun's store still holds the keys of restarted processes. On several machines, it
        # counts restarts for each machine. There it must use a new store each time, set by
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
        # Only gloo, as monitored_barrier refuses a group that also has nccl. The group inherits the
        # default group's device; torch asks gloo to connect to it, and gloo does nothing.
        return dist.new_group(backend="gloo")

    def barrier(self) -> None:
        """Wait until all ranks have reached this call, even for days."""
        import torch.distributed as dist

        with _raise_ranks_error():
            dist.monitored_barrier(self.group, timeout=_BARRIER_TIMEOUT)

    def sum(self, values: Sequence[float]) -> list[float]:
        """Return the sum of each of ``values`` over all ranks; integers below 2^53 are exact."""
        import torch
        import torch.distributed as dist

        sums = torch.tensor(values, dtype=torch.float64)
        with _raise_ranks_error():
            dist.all_reduce(sums, group=self.group)
        return cast(list[float], sums.tolist())

    def broadcast(self, value: Value) -> Value:
        """Return the main process's ``value`` on all ranks."""
        return cast(Value, json.loads(self._gather(json.dumps(value).encode())[0]))

    def map(
        self, function: Callable[[Sequence[Item]], list[Result]], items: Sequence[Item]
    ) -> list[Result]:
        """Return ``function(items)`` on all ranks; each rank computes its own part of the list.

        Each rank calls ``function`` once, on every n-th item, as adjacent items take similar time.
        """
        own = json.dumps(function(items[self.rank :: self.size])).encode()
        results: list[Any] = [None] * len(items)
        for rank, share in enumerate(self._gather(own)):
            results[rank :: self.size] = json.loads(share)
        return results

    def _gather(self, data: bytes) -> list[bytes]:
        """Return the ``data`` of every rank; unlike torch's object collectives, use no pickle."""
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

    def wrap(self, module: "nn.Module") -> "nn.Module":
        """Wrap a module so that each backward pass averages gradients over the ranks."""
        from torch.nn.parallel import DistributedDataParallel

        with warnings.catch_warnings():
            # torch 2.11 does not have the replacement yet.
            warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated")
            return DistributedDataParallel(
                module, broadcast_buffers=False, gradient_as_bucket_view=True
            )

    def no_sync(self, wrapped: "nn.Module") -> AbstractContextManager[Any]:
        """Return a context in which backward passes do not average gradients."""
        from torch.nn.parallel import DistributedDataParallel

        assert isinstance(wrapped, DistributedDataParallel)
        return wrapped.no_sync()


class RanksError(TransformerCliError):
    """A process of the same job that has ended or cannot be reached."""

    @classmethod
    def of(cls, error: Exception) -> "RanksError":
        """Return a RanksError for torch's error, without gloo's source location or advice."""
        first_line = (str(error).splitlines() or [""])[0]
        reason = re.sub(r"^\[[^]]*\] ", "", first_line).partition(". ")[0]
        return cls(
            f"another process of this job has ended or cannot be reached ({reason}); "
            "see its message for the reason"
        )


def _is_lost_process(error: Exception) -> bool:
    """Return whether torch raised this error because another process ended."""
    # NCCL and the store have their own error types; gloo's messages name its source files.
    return type(error).__name__.startswith("Dist") or "/gloo/" in str(error)


@contextmanager
def _stdout_for_results() -> Iterator[None]:
    """Redirect output of libraries from stdout to stderr, e.g. that of Gloo before torch 2.13."""
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
