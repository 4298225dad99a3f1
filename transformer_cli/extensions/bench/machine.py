"""Facts about this machine and its installed packages, for benchmarks."""

import os
import platform
from pathlib import Path

import psutil
import torch

from transformer_cli.base.messages import size
from transformer_cli.base.packages import __version__
from transformer_cli.base.workers import count_cores
from transformer_cli.config.choices import DeviceName
from transformer_cli.inference.engine import describe_versions
from transformer_cli.model.device import choose_device

_PACKAGES = (
    *("torch", "ctranslate2", "sentencepiece", "tokenizers", "sacrebleu", "safetensors", "numpy"),
    *("onnx", "plotly", "scipy", "distributed"),
)
# These decide how fast matrices are multiplied; the last line is for ARM.
_INSTRUCTIONS = (
    *("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8"),
    *("asimd", "sve", "i8mm", "bf16"),
)


def describe_machine(device_name: DeviceName = "auto") -> dict[str, str]:
    """Return facts about this machine and its packages, without a user's name or a path."""
    model, instructions = describe_processor()
    return {
        "transformer-cli": __version__,
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": platform.platform(),
        "processor": model,
        "instructions": instructions,
        "cores": f"{count_cores()} usable of {os.cpu_count()}",
        "memory": size(psutil.virtual_memory().total),
        **dict.fromkeys(_PACKAGES, "not installed"),
        **describe_versions(*_PACKAGES),
        "device": _describe_device(choose_device(device_name)),
    }


def describe_processor(file: Path = Path("/proc/cpuinfo")) -> tuple[str, str]:
    """Return the processor's name and vector instructions, read from ``file`` if that exists."""
    listed = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    entries = {
        name.strip(): value.strip()
        for name, _, value in (line.partition(": ") for line in listed.splitlines())
    }
    has = set(entries.get("flags", entries.get("Features", "")).split())
    instructions = ", ".join(name for name in _INSTRUCTIONS if name in has)
    model = entries.get("model name") or platform.processor() or platform.machine()
    return model, instructions or torch.backends.cpu.get_cpu_capability()


def _describe_device(device: torch.device) -> str:
    if device.type != "cuda":
        return device.type
    name, memory = torch.cuda.get_device_name(device), size(torch.cuda.mem_get_info(device)[1])
    return f"{name}, {memory}, CUDA {torch.version.cuda}"
