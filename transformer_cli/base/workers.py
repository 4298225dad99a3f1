"""Who computes on text in pieces: this process, or workers that an extension has.

An extension provides a function that returns what opens an executor, or None if it cannot help
here. It gets the value of the option that asks for it, and a place that the workers have to see::

    provides = {"executor": {"grid": {"load": "grid:find", "option": "grid"},
                             "threads": {"load": "threads:find"}}}

An entry without an option is used where nothing is asked for.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from transformer_cli.base import registry

OpenExecutor = Callable[[], AbstractContextManager[Executor]]


def find_executor(extras: Iterable[object], place: Path, unasked: bool = True) -> OpenExecutor:
    """Return what opens the executor that a command's options ask for, or else another one.

    Args:
        extras: the options of extensions.
        place: where the work reads and writes; it need not be there yet, and may be a URL.
        unasked: whether it may be one that nothing asks for; else that is ``SerialExecutor``.

    Raises:
        UsageError: something is wrong with the options.
    """
    asked = {name: value for extra in extras for name, value in vars(extra).items()}
    found: OpenExecutor | None = None
    entries = registry.entries("executor").values()
    for entry in sorted(entries, key=lambda entry: "option" not in entry.facts):
        option = entry.facts.get("option")
        value = asked.get(str(option))
        if found is None and (unasked if option is None else value is not None):
            found = entry.load()(value, place)
    return found or SerialExecutor


class SerialExecutor(Executor):
    """Calls each function in this process, at once."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call ``fn``; an error is raised by the future's ``result``."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
