"""Converts a file from ``torch.save`` to safetensors, in a process of its own.

``torch.load`` with ``weights_only`` runs no code from the file, but even a small file can make it
use any amount of memory and time. This process limits both; an error ends only this process.
"""

import pickle
import re
import sys
from contextlib import suppress

import psutil
import torch
from safetensors.torch import save_file
from torch import Tensor

TOO_MUCH = "would take more memory or time than its weights need"
_MAX_SECONDS = 600
_NAME = re.compile(r"GLOBAL ([\w.]+)")


def main() -> None:
    """Convert stdin; the arguments are the output file and the most bytes of added memory."""
    out, max_bytes = sys.argv[1], int(sys.argv[2])
    if sys.platform != "win32":  # Windows has no such limits
        limit(max_bytes)
    try:
        tensors = torch.load(sys.stdin.buffer, "cpu", weights_only=True)
        if not isinstance(tensors, dict) or not all(
            isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in tensors.items()
        ):
            raise TypeError("is not a table of tensors by name")
        # Cloned tensors share no memory, as safetensors requires.
        save_file(
            {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}, out
        )
    except Exception as error:
        print(describe(error))
        sys.exit(1)


def limit(max_bytes: int) -> None:
    """Limit this process's additional memory and output file to ``max_bytes``, and its CPU time."""
    import resource

    address_space = psutil.Process().memory_info().vms + max_bytes
    with suppress(ValueError, OSError):  # macOS refuses some limits
        resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
    resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, max_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (_MAX_SECONDS, _MAX_SECONDS))


def describe(error: Exception) -> str:
    """Return one line that says what is wrong with the file."""
    reason = " ".join(str(error).split())
    if isinstance(error, MemoryError) or "allocate memory" in reason:
        return TOO_MUCH
    if isinstance(error, pickle.UnpicklingError) and (match := _NAME.search(reason)):
        return (
            "contains code, not only weights: reading it would run that code "
            f"({match[1][:80]!r}); ask for a model.safetensors"
        )
    return f"is damaged, or not a file of weights ({reason[:100]})"


if __name__ == "__main__":
    main()
