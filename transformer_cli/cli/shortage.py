"""Memory, address space (`ulimit -v`) and threads that run out: told in one line.

Where a library does not find the address space that it needs, it raises errors of any kind, ends
the process, or works in part.
"""

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from transformer_cli.errors import is_out_of_memory

_OF_TORCH = 640 << 20
"""Bytes of address space that torch's libraries take on a CPU."""
_FEW = 1 << 30
_ADVICE = "raise the limit of the address space (ulimit -v)"


class _RoomForTorch(MetaPathFinder):
    """Refuses torch where its libraries would abort the process."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "torch" and _is_left_less_than(_OF_TORCH):
            raise ImportError("too little address space for torch", name=name)
        return None


def keep_torch_out() -> None:
    """Refuse to import torch, from here on, where there is too little address space for it."""
    if _limit() is not None:
        sys.meta_path.insert(0, _RoomForTorch())


def find_shortage(error: BaseException) -> str | None:
    """Return a message if an error is, or may be, for want of memory or threads, else None."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
        chain.append(cause)
    if is_address_space_short():
        reason = "" if isinstance(error, MemoryError) else f" ({type(error).__name__}: {error})"
        return f"out of memory{reason}; {_ADVICE}"
    if any("can't start new thread" in str(each) for each in chain):
        return "no thread can be started; raise the limit of processes (ulimit -u)"
    if any(map(is_out_of_memory, chain)):
        return "out of memory; lower training.batch_tokens or --batch-tokens"
    return None


def is_address_space_short() -> bool:
    """Return whether this process' address space is limited, and little of it is left."""
    return _is_left_less_than(_FEW)


def _is_left_less_than(size: int) -> bool:
    if (limit := _limit()) is None:
        return False
    try:
        with Path("/proc/self/statm").open("rb", buffering=0) as file:
            pages = int(file.read(64).split()[0])
    except OSError:  # not on this system
        return False
    except MemoryError:
        return True
    return limit - pages * os.sysconf("SC_PAGESIZE") < size


def _limit() -> int | None:
    try:
        import resource
    except ImportError:  # not on this system
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit
