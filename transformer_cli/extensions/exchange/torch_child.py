"""Turns a file of ``torch.save`` into safetensors, in a process of its own.

``torch.load`` with ``weights_only`` runs no code of the file's, but a kilobyte can make it take any
amount of memory and time. Here both are limited, and what goes wrong ends this process alone.
"""

import pickle
import re
import sys
from contextlib import suppress

import psutil
import torch
from safetensors.torch import save_file
from torch import Tensor

TOO_MUCH = "would take more memory or time than its weights do"
_MAX_SECONDS = 600
_NAME = re.compile(r"GLOBAL ([\w.]+)")


def main() -> None:
    """Read a file from stdin and write OUT, with MAX_BYTES of memory more; print what is wrong."""
    out, max_bytes = sys.argv[1], int(sys.argv[2])
    if sys.platform != "win32":  # it has no such limits
        limit(max_bytes)
    try:
        tensors = torch.load(sys.stdin.buffer, "cpu", weights_only=True)
        if not isinstance(tensors, dict) or not all(
            isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in tensors.items()
        ):
            raise TypeError("is not a table of tensors by name")
        # They share no memory then.
        save_file(
            {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}, out
        )
    except Exception as error:
        print(describe(error))
        sys.exit(1)


def limit(max_bytes: int) -> None:
    """Limit memory, beside what this process has, its time, and the file that it writes."""
    import resource

    address_space = psutil.Process().memory_info().vms + max_bytes
    with suppress(ValueError, OSError):  # macOS refuses some
        resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
    resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, max_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (_MAX_SECONDS, _MAX_SECONDS))


def describe(error: Exception) -> str:
    """Return what is wrong with the file, in one line."""
    reason = " ".join(str(error).split())
    if isinstance(error, MemoryError) or "allocate memory" in reason:
        return TOO_MUCH
    if isinstance(error, pickle.UnpicklingError) and (match := _NAME.search(reason)):
        return (
            "is not only weights: to read it, code in it would have to be run "
            f"({match[1][:80]!r}); ask for a model.safetensors"
        )
    return f"is damaged, or no file of weights ({reason[:100]})"


if __name__ == "__main__":
    main()
