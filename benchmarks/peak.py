"""How fast this machine multiplies matrices at best: what other speeds are held against.

Two ways are measured: torch.mm, which is what PyTorch programs get (MKL in float32), and oneDNN's
product with its weights laid out beforehand, which is what this processor can do.
"""

import json
import time
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.rounds import THREADS

_SIZES = (1024, 2048, 4096)
_SECONDS_A_SIZE = 2.0
WAYS = ("torch.mm", "oneDNN")
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def matmul_peak(dtype: torch.dtype, way: str) -> float:
    """GFLOP/s of the fastest product of two square matrices, the best of many repetitions.

    Args:
        dtype: type of both factors and of the product.
        way: ``torch.mm`` or ``oneDNN``.
    """
    return max(_gflops(size, _product(size, dtype, way)) for size in _SIZES)


def _product(size: int, dtype: torch.dtype, way: str) -> Callable[[], Tensor]:
    left, right = torch.randn(2, size, size).to(dtype)
    if way == "torch.mm":
        product = torch.empty_like(left)
        return lambda: torch.mm(left, right, out=product)
    packed = torch.ops.mkldnn._reorder_linear_weight(right, None)

    def by_onednn() -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(left, packed, None, "none", [], "")
        return product

    return by_onednn


def _gflops(size: int, product: Callable[[], Tensor]) -> float:
    product()  # the first one allocates, and may pick a kernel
    best = float("inf")
    end = time.perf_counter() + _SECONDS_A_SIZE
    while (start := time.perf_counter()) < end:
        product()
        best = min(best, time.perf_counter() - start)
    return 2.0 * size**3 / best / 1e9


def main() -> None:
    """Print the peaks by type and way."""
    torch.set_num_threads(THREADS)
    peaks = {
        name: {way: matmul_peak(dtype, way) for way in WAYS} for name, dtype in _DTYPES.items()
    }
    print(json.dumps(peaks))


if __name__ == "__main__":
    main()
