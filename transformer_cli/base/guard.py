"""A guard over what this process writes, where another process may have taken over its work.

An extension provides one, with the environment variable that makes it count::

    provides = {"guard": {"jobs": {"load": "jobs:GUARD", "variable": "TRANSFORMER_CLI_JOB"}}}
"""

import os
from typing import Protocol

from transformer_cli.base import registry


class Guard(Protocol):
    """Keeps all but the newest of the processes that do one job from writing."""

    patience: float
    """Seconds after which a process that was replaced has ended."""

    def job(self) -> str:
        """Return the name of the job, the same in all processes that do it."""

    def check(self) -> None:
        """End this process if another one has replaced it."""


def find_guard() -> Guard | None:
    """Return the guard of this process; None: nobody takes over its work."""
    # Looked up each time: whatever this process or its starter sets counts at once.
    for entry in registry.entries("guard").values():
        if entry.facts["variable"] in os.environ:
            guard: Guard = entry.load()
            return guard
    return None


def check_guard() -> None:
    """End this process if it may not write any more; call this before anything appears."""
    if guard := find_guard():
        guard.check()
