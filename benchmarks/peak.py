"""How fast this machine multiplies matrices at best: what other speeds are held against."""

import json
import time

import torch

from benchmarks.rounds import THREADS

_SIZES = (1024, 2048, 4096)
_SECONDS_A_SIZE = 3.0
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def matmul_peak(dtype: torch.dtype) -> float:
    """GFLOP/s of the fastest product of two square matrices, the best of many repetitions.

    Args:
        dtype: type of both factors and of the product.
    """
    return max(_gflops(size, dtype) for size in _SIZES)


def _gflops(size: int, dtype: torch.dtype) -> float:
    left, right = torch.randn(2, size, size).to(dtype)
    product = torch.mm(left, right)  # the first one allocates, and may pick a kernel
    best = float("inf")
    end = time.perf_counter() + _SECONDS_A_SIZE
    while (start := time.perf_counter()) < end:
        torch.mm(left, right, out=product)
        best = min(best, time.perf_counter() - start)
    return 2.0 * size**3 / best / 1e9


def main() -> None:
    """Print the peaks by type."""
    torch.set_num_threads(THREADS)
    print(json.dumps({name: matmul_peak(dtype) for name, dtype in _DTYPES.items()}))


if __name__ == "__main__":
    main()
