"""Device, threads and precision to compute with."""

import os
import platform

import torch

from transformer_cli.base.errors import UsageError
from transformer_cli.base.ranks import Ranks
from transformer_cli.config.choices import DeviceName, PrecisionName

_SUM_DTYPES = {"mps": torch.float32}


def choose_device(name: DeviceName) -> torch.device:
    """Return the device called ``name``; 'auto' is the CUDA GPU if there is one.

    Raises:
        UsageError: 'cuda' or 'mps' is asked for where there is none.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "mps" and not torch.backends.mps.is_available():
        raise UsageError(
            "`device` mps: torch sees no MPS device here, which an Apple silicon Mac with "
            "macOS 14 or newer has; use `device` cpu"
        )
    if name == "cuda":
        if not torch.cuda.is_available():
            raise UsageError("`device` cuda: torch sees no CUDA device here; use `device` cpu")
        # cuDNN's attention, which torch 2.11 tries first on Hopper and newer, builds a plan for
        # each new shape: 20 to 40 ms here, by an estimate, and a second of a step on a B200, as
        # measured in github.com/modelscope/FunASR/issues/3704. Nor can its backward be made
        # deterministic. The precision of float32 matmuls stays torch's default, 'highest': no TF32.
        torch.backends.cuda.enable_cudnn_sdp(False)
    return torch.device(name)


def use_threads(threads: int | None) -> None:
    """Set the number of CPU threads; None leaves torch's default, one per core."""
    if threads is not None:
        torch.set_num_threads(threads)


def choose_precision(name: PrecisionName, device: torch.device) -> torch.dtype:
    """Return the compute dtype; 'auto' is bfloat16 on a GPU that computes in it, else float32.

    If 'bfloat16' is asked for elsewhere, torch emulates it, more slowly than float32.

    Raises:
        UsageError: 'bfloat16' is asked for on MPS.
    """
    if name == "bfloat16" and device.type == "mps":
        raise UsageError("`precision` bfloat16: MPS computes in float32 here; leave it out")
    if name == "auto":
        has_bfloat16 = device.type == "cuda" and torch.cuda.is_bf16_supported(
            including_emulation=False
        )
        name = "bfloat16" if has_bfloat16 else "float32"
    return torch.bfloat16 if name == "bfloat16" else torch.float32


def choose_training_precision(
    name: PrecisionName, device: torch.device, ranks: Ranks, earlier: str | None = None
) -> torch.dtype:
    """Return the compute dtype of a training, the same on all ranks; see ``choose_precision``.

    On a CPU, 'auto' is what the run was trained in ``earlier``, and for a new run bfloat16 if the
    main process' processor computes in it.
    """
    if name == "auto" and device.type == "cpu":
        is_bfloat16 = earlier == "bfloat16" if earlier else has_bfloat16()
        name = "bfloat16" if ranks.broadcast(int(is_bfloat16)) else "float32"
    return choose_precision(name, device)


def has_bfloat16() -> bool:
    """Return whether this processor multiplies in bfloat16, instead of emulating it."""
    if platform.machine() in ("x86_64", "AMD64"):
        # oneDNN's answer is true for all of AVX-512 there, where it may be an emulation.
        return bool(torch.cpu._is_avx512_bf16_supported())
    is_supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    return bool(is_supported())


def sum_dtype(device: torch.device) -> torch.dtype:
    """Return the dtype of sums over many batches: float64, which MPS has not."""
    return _SUM_DTYPES.get(device.type, torch.float64)


def empty_cache() -> None:
    """Give a GPU's memory back that torch has cached; without one it does nothing."""
    torch.cuda.empty_cache()
    if torch.backends.mps.is_available():
        torch.mps.empty_cache()


def bound_kernel_caches() -> None:
    """Bound oneDNN's kernel caches; call this before the first matmul of a training.

    Values set by the user take precedence.
    """
    # oneDNN compiles a kernel per shape of batch and layer; it and torch cache 1,024 each. Training
    # batches seldom repeat a shape, so the caches grew by 10 MB per step with few hits.
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(name, "64")
