"""The device and its software, and the rates that other figures are held against."""

import platform
import shutil
import subprocess
from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.gpu.parts import Row
from benchmarks.gpu.setting import Setting
from benchmarks.gpu.timing import median_seconds


def measure(setting: Setting) -> Iterator[Row]:
    """Yield versions, then matrix products and a copy."""
    for what, version in _versions(setting.device).items():
        yield {"": what, "version": version}
    sides = (256,) if setting.small else (4096, 8192)
    for name in ("bfloat16", "float32", "tf32"):
        if name != "tf32" or setting.device.type == "cuda":
            rates = {f"{side}²": matmul_rate(name, side, setting.device) / 1e12 for side in sides}
            yield {"TFLOP/s": name, **rates}
    elements = 1 << (20 if setting.small else 28)
    source = torch.randn(elements, device=setting.device)
    target = torch.empty_like(source)
    seconds = median_seconds(lambda: target.copy_(source), setting.device)
    yield {"GB/s": "copy on the device", "rate": 2 * 4 * elements / seconds / 1e9}


def matmul_rate(name: str, side: int, device: torch.device) -> float:
    """Return operations per second of the product of two square matrices.

    Args:
        name: ``bfloat16``, ``float32`` or ``tf32``.
        side: rows and columns.
        device: where they are multiplied.
    """
    dtype = torch.bfloat16 if name == "bfloat16" else torch.float32
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
    left, right = torch.randn(2, side, side, device=device).to(dtype)
    product = torch.empty_like(left)

    def multiply() -> Tensor:
        return torch.mm(left, right, out=product)

    seconds = median_seconds(multiply, device)
    torch.set_float32_matmul_precision(before)
    return 2.0 * side**3 / seconds


def _versions(device: torch.device) -> dict[str, str]:
    versions = {"Python": platform.python_version(), "torch": str(torch.__version__)}
    if device.type == "cpu":
        return versions
    properties = torch.cuda.get_device_properties(device)
    return versions | {
        "CUDA": str(torch.version.cuda),
        "cuDNN": str(torch.backends.cudnn.version()),  # type: ignore[no-untyped-call]
        "NCCL": ".".join(map(str, torch.cuda.nccl.version())),  # type: ignore[no-untyped-call]
        "driver": _driver(),
        "GPU": properties.name,
        "memory": f"{properties.total_memory / 2**30:.1f} GiB",
        "multiprocessors": str(properties.multi_processor_count),
    }


def _driver() -> str:
    if shutil.which("nvidia-smi") is None:
        return "unknown: no nvidia-smi"
    query = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    answer = subprocess.run(query, capture_output=True, encoding="utf-8", check=False, timeout=20)
    return answer.stdout.strip() or f"unknown: nvidia-smi ended with {answer.returncode}"
