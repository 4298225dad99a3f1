"""What figures were measured on: the head of a report."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version

from transformer_cli.base.workers import count_cores
from transformer_cli.extensions.bench.machine import describe_processor


def describe_machine() -> str:
    """Processor, cores, memory, the instructions that matter and the versions, in one line."""
    model, instructions = describe_processor()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{model}, {count_cores()} cores, {memory:.0f} GiB; {instructions}; "
        f"Python {platform.python_version()}, torch {version('torch')}"
    )


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
