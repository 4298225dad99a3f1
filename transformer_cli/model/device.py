"""The device, the number of threads and the precision to compute with."""

import os
import platform

import torch

from transformer_cli.base.errors import UsageError
from transformer_cli.base.ranks import Ranks
from transformer_cli.config.choices import DeviceName, PrecisionName

_SUM_DTYPES = {"mps": torch.float32}


def choose_device(name: DeviceName) -> torch.device:
    """Return the device called ``name``; 'auto' means the CUDA GPU if there is one, else the CPU.

    Raises:
        UsageError: ``name`` is 'cuda' or 'mps', and torch finds no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "mps" and not torch.backends.mps.is_available():
        raise UsageError(
            "`device` mps: torch finds no MPS device here (it needs an Apple silicon Mac with "
            "macOS 14 or newer); use `device` cpu"
        )
    if name == "cuda":
        if not torch.cuda.is_available():
            raise UsageError("`device` cuda: torch finds no CUDA device here; use `device` cpu")
        # torch 2.11 tries cuDNN's attention first on Hopper and newer GPUs, but it builds a plan
        # for each new shape. We estimate 20 to 40 ms a plan here; on a B200 it took a second of a
        # step (github.com/modelscope/FunASR/issues/3704). Its backward pass also can't be made
        # deterministic. Float32 matmuls keep torch's default precision, 'highest': no TF32.
        torch.backends.cuda.enable_cudnn_sdp(False)
    return torch.device(name)


def use_threads(threads: int | None) -> None:
    """Set the number of CPU threads; None keeps torch's default, one per core."""
    if threads is not None:
        torch.set_num_threads(threads)


def choose_precision(name: PrecisionName, device: torch.device) -> torch.dtype:
    """Return the compute dtype; 'auto' means bfloat16 on a GPU that supports it, else float32.

    On other devices, torch emulates bfloat16 if asked for it; this is slower than float32.

    Raises:
        UsageError: ``name`` is 'bfloat16', and the device is MPS.
    """
    if name == "bfloat16" and device.type == "mps":
        raise UsageError("`precision` bfloat16: not supported on MPS; use `precision` float32")
    if name == "auto":
        has_bfloat16 = device.type == "cuda" and torch.cuda.is_bf16_supported(
            including_emulation=False
        )
        name = "bfloat16" if has_bfloat16 else "float32"
    return torch.bfloat16 if name == "bfloat16" else torch.float32


def choose_training_precision(
    name: PrecisionName, device: torch.device, ranks: Ranks, earlier: str | None = None
) -> torch.dtype:
    """Return the compute dtype for training, the same on all ranks; see ``choose_precision``.

    On a CPU, 'auto' keeps ``earlier``, the dtype that the run was trained in before. In a new run,
    it means bfloat16 if the processor of the main process supports that, otherwise float32.
    """
    if name == "auto" and device.type == "cpu":
        is_bfloat16 = earlier == "bfloat16" if earlier else has_bfloat16()
        name = "bfloat16" if ranks.broadcast(int(is_bfloat16)) else "float32"
    return choose_precision(name, device)


def has_bfloat16() -> bool:
    """Return whether this processor multiplies in bfloat16 natively, without emulation."""
    if platform.machine() in ("x86_64", "AMD64"):
        # oneDNN says yes for every AVX-512 processor here, even one that emulates bfloat16.
        return bool(torch.cpu._is_avx512_bf16_supported())
    is_supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    return bool(is_supported())


def sum_dtype(device: torch.device) -> torch.dtype:
    """Return the dtype for sums over many batches: float64, or float32 on MPS."""
    return _SUM_DTYPES.get(device.type, torch.float64)


def empty_cache() -> None:
    """Release the GPU memory that torch has cached; without a GPU, do nothing."""
    torch.cuda.empty_cache()
    if torch.backends.mps.is_available():
        torch.mps.empty_cache()


def bound_kernel_caches() -> None:
    """Limit oneDNN's kernel caches; call this before the first matmul of training.

    Environment variables that the user has set take precedence.
    """
    # oneDNN compiles a kernel per shape of batch and layer; it and torch cache 1,024 each. Training
    # batches seldom repeat a shape, so the caches grew by 10 MB per step with few hits.
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(name, "64")
