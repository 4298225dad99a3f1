"""What figures were measured on: the head of a report."""

import os
import platform
import re
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


def describe_machine() -> str:
    """Processor, cores, memory, the instructions that matter and the versions, in one line."""
    processor = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = _entry(processor, "model name") or platform.processor() or platform.machine()
    flags = set(_entry(processor, "flags").split())
    instructions = ", ".join(flag for flag in _FLAGS if flag in flags) or "none of " + str(_FLAGS)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{model}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB; {instructions}; "
        f"Python {platform.python_version()}, torch {version('torch')}"
    )


def _entry(processor: str, key: str) -> str:
    found = re.search(rf"^{key}\s*:\s*(.*)$", processor, re.MULTILINE)
    return found[1] if found else ""


def report_head(command: str) -> str:
    """The first lines of a report, in Markdown.

    Args:
        command: what measures it again.
    """
    return "\n".join(
        (
            f"- machine: {describe_machine()}",
            f"- date: {datetime.now(UTC):%Y-%m-%d}",
            f"- command: `{command}`",
        )
    )
