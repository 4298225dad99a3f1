"""Where pieces of text are processed: in this process, or in workers of an extension.

An extension provides a function that returns a function to open an executor, or None if it cannot
help here. It gets its option's value, and a path that the workers must be able to access::

    provides = {"executor": {"grid": {"load": "grid:find", "option": "grid"},
                             "threads": {"load": "threads:find"}}}

An entry without an option is used if the command line asks for none.
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
    """Return a function that opens the executor that a command's options ask for, or a default.

    Args:
        extras: the options of extensions.
        place: where the work reads and writes; it may not exist yet, and may be a URL.
        unasked: whether the default may be an extension's; otherwise it is ``SerialExecutor``.

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
    """Calls each function in this process, immediately."""

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
