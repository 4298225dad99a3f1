"""The processes of a training: this one alone, or several that an extension connects.

An extension provides a function that returns this process' ``Ranks``; it is asked where the
environment has ``WORLD_SIZE``, the number of processes::

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
    """This process' rank, and what the ranks of a training do together. Here it is the only one."""

    rank: int = 0
    size: int = 1  # number of processes
    local_rank: int = 0  # rank among the processes of this machine
    local_size: int = 1  # number of those

    @property
    def is_main(self) -> bool:
        """True on rank 0, which writes files and messages."""
        return self.rank == 0

    def check_command(self, command: str) -> None:
        """Raise UsageError if several processes cannot run a command."""

    def may_overwrite(self, run: Path) -> bool:
        """Return whether to start a run from scratch; False: an earlier start has done so.

        UsageError: an earlier start may have done so or not.
        """
        return True

    def place(self, device: "torch.device") -> "torch.device":
        """Return the device of this rank, of those of the kind that was chosen."""
        return device

    @contextmanager
    def init(self, device: "torch.device") -> Iterator["Ranks"]:
        """Connect the ranks for the block; yield those that can do the following."""
        yield self

    def barrier(self) -> None:
        """Wait until all ranks have reached this call, for days if need be."""

    def sum(self, values: Sequence[float]) -> list[float]:
        """Sum each of ``values`` over all ranks; integers below 2^53 exactly."""
        return list(values)

    def broadcast(self, value: Value) -> Value:
        """Return the main process' ``value`` on all ranks."""
        return value

    def map(
        self, function: Callable[[Sequence[Item]], list[Result]], items: Sequence[Item]
    ) -> list[Result]:
        """Compute ``function(items)``, each rank on its share; all ranks get the whole result."""
        return function(items)

    def wrap(self, module: "nn.Module") -> "nn.Module":
        """Return a module whose gradients are averaged over the ranks in each backward."""
        return module

    def no_sync(self, wrapped: "nn.Module") -> AbstractContextManager[Any]:
        """Average nothing yet in the block's backward."""
        return nullcontext()


SINGLE_PROCESS = Ranks()


def find_ranks() -> Ranks:
    """Return the ranks that the environment describes, not yet connected; or a single process.

    UsageError: there are several, and no extension connects them.
    """
    size = os.environ.get("WORLD_SIZE")
    if size is None:
        return SINGLE_PROCESS
    for entry in registry.all_entries("ranks").values():
        return cast(Ranks, entry.load()())
    if size.isdecimal() and int(size) > 1:
        what = registry.describe_missing("way to connect processes", f"WORLD_SIZE={size}")
        raise UsageError(f"{what}; unset it to use one process")
    return SINGLE_PROCESS
