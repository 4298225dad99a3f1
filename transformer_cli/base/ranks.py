"""The processes of a training run: this one alone, or several that an extension connects.

An extension provides a function that returns this process's ``Ranks``. It is called if the
environment variable ``WORLD_SIZE``, the number of processes, is set::

    provides = {"ranks": {"grid": {"load": "grid:find_ranks"}}}
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from transformer_cli.base import registry
from transformer_cli.base.errors import UsageError

if TYPE_CHECKING:
    import torch
    from torch import nn

Item = TypeVar("Item")
Result = TypeVar("Result", str, list[str])
Value = TypeVar("Value", str, int | None)


@dataclass(frozen=True)
class Ranks:
    """This process's rank (its number) and operations over all ranks, here a single one."""

    rank: int = 0
    size: int = 1  # number of processes
    local_rank: int = 0  # rank among the processes of this machine
    local_size: int = 1  # number of processes on this machine

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, which writes files and messages."""
        return self.rank == 0

    def check_command(self, command: str) -> None:
        """Raise UsageError if several processes are running, but ``command`` needs a single one."""

    def may_overwrite(self, run: Path) -> bool:
        """Return whether to start ``run`` from scratch; False if this job did so before a restart.

        Raise UsageError if it is unclear whether it did so.
        """
        return True

    def place(self, device: "torch.device") -> "torch.device":
        """Return this rank's device, e.g. ``cuda:1``; ``device`` is the chosen type of device."""
        return device

    @contextmanager
    def init(self, device: "torch.device") -> Iterator["Ranks"]:
        """Connect the ranks for the block; call the methods below on the object that it yields."""
        yield self

    def barrier(self) -> None:
        """Wait until all ranks have reached this call, for days if needed."""

    def sum(self, values: Sequence[float]) -> list[float]:
        """Return the sum of each value over all ranks; integers below 2^53 are summed exactly."""
        return list(values)

    def broadcast(self, value: Value) -> Value:
        """Return the main process's ``value`` on all ranks."""
        return value

    def map(
        self, function: Callable[[Sequence[Item]], list[Result]], items: Sequence[Item]
    ) -> list[Result]:
        """Return ``function(items)`` on all ranks; each rank computes it for some of the items."""
        return function(items)

    def wrap(self, module: "nn.Module") -> "nn.Module":
        """Return a module whose gradients are averaged over the ranks in each backward pass."""
        return module

    def no_sync(self, wrapped: "nn.Module") -> AbstractContextManager[Any]:
        """Do not average gradients in the backward passes of the block."""
        return nullcontext()


SINGLE_PROCESS = Ranks()


def find_ranks() -> Ranks:
    """Return this process's ``Ranks`` as the environment describes them, not yet connected.

    Raise UsageError if there are several processes and no extension connects them.
    """
    size = os.environ.get("WORLD_SIZE")
    if size is None:
        return SINGLE_PROCESS
    for entry in registry.all_entries("ranks").values():
        return cast(Ranks, entry.load()())
    if size.isdecimal() and int(size) > 1:
        problem = "no extension connects processes; unset it to use one process"
        raise UsageError(f"WORLD_SIZE={size}: {problem}; {registry.describe_installed()}")
    return SINGLE_PROCESS
