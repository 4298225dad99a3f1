"""Errors that are recognised by their text."""

import numpy as np
import pytest
import torch
import torch.distributed as dist

from transformer_cli.base.errors import is_out_of_memory
from transformer_cli.cli import _run

_DEBUGGING = (
    "\nSearch for `cudaErrorMemoryAllocation' in the CUDA documentation for more information."
    "\nCUDA kernel errors might be asynchronously reported at some other API call, so the "
    "stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
)
NCCL = dist.DistBackendError(
    "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, unhandled cuda error "
    "(run with NCCL_DEBUG=INFO for details), NCCL version 2.28.9\n"
    "ncclUnhandledCudaError: Call to CUDA function failed.\n"
    "Last error:\nCuda failure 2 'out of memory'"
)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total"),
        torch.AcceleratorError("CUDA error: out of memory" + _DEBUGGING),
        RuntimeError("CUDA error: out of memory" + _DEBUGGING),
        RuntimeError("CUDA driver error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"),
        RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
        NCCL,
        RuntimeError("CUDA failed with error out of memory"),  # CTranslate2
        RuntimeError("std::bad_alloc"),
        RuntimeError("unable to mmap 4096 bytes from file <>: Cannot allocate memory (12)"),
        MemoryError(),
    ],
)
def test_what_is_out_of_memory(error: Exception) -> None:
    assert is_out_of_memory(error)


def test_real_allocations_that_fail_are_out_of_memory() -> None:
    with pytest.raises(RuntimeError, match="DefaultCPUAllocator") as of_torch:
        torch.empty(1 << 50)
    with pytest.raises(MemoryError) as of_numpy:
        np.empty(1 << 55)
    assert is_out_of_memory(of_torch.value)
    assert is_out_of_memory(of_numpy.value)


@pytest.mark.parametrize(
    "error",
    [
        torch.AcceleratorError("CUDA error: an illegal memory access was encountered" + _DEBUGGING),
        torch.AcceleratorError("CUDA error: device-side assert triggered" + _DEBUGGING),
        RuntimeError("view size is not compatible with input tensor's memory format"),
        RuntimeError("unsupported operation: the input and output share memory; they are out of"),
        RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"),
        dist.DistBackendError("Last error:\nCuda failure 1 'invalid argument'"),
        ValueError("memory"),
    ],
)
def test_what_is_not(error: Exception) -> None:
    assert not is_out_of_memory(error)


def test_out_of_memory_in_nccl_is_told_as_that(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*arguments: object, **others: object) -> None:
        raise NCCL

    monkeypatch.setattr("transformer_cli.cli.app", fail)
    monkeypatch.setattr("sys.argv", ["transformer-cli", "train", "config.yaml"])
    assert _run() == 1
    assert "out of memory; lower training.batch_tokens" in capsys.readouterr().err
