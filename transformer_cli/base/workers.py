"""Executors, which process text in pieces: in this process, or in workers of an extension.

An extension provides a function that takes the value of its option, and a path that the workers
must be able to access. It returns a function that opens an executor, or None if it cannot help::

    provides = {"executor": {"grid": {"load": "grid:find", "option": "grid"},
                             "threads": {"load": "threads:find"}}}

An entry without an option is used if the command line does not ask for any executor.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

from transformer_cli.base import registry

OpenExecutor = Callable[[], AbstractContextManager[Executor]]


def find_executor(extras: Iterable[object], place: Path, unasked: bool = True) -> OpenExecutor:
    """Return a function that opens the executor that a command's options ask for, or a default.

    Args:
        extras: the options that extensions added to the command, one object per class.
        place: a path that workers must be able to access; it need not exist, and may be a URL.
        unasked: whether the default may come from an extension; else it is ``SerialExecutor``.

    Raises:
        UsageError: something is wrong with the options.
    """
    asked = {name: value for extra in extras for name, value in vars(extra).items()}
    entries = registry.entries("executor").values()
    for entry in sorted(entries, key=lambda entry: "option" not in entry.facts):
        option = entry.facts.get("option")
        value = asked.get(str(option))
        is_wanted = unasked if option is None else value is not None
        if is_wanted and (found := cast(OpenExecutor | None, entry.load()(value, place))):
            return found
    return SerialExecutor


class SerialExecutor(Executor):
    """An executor that calls each function immediately, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call ``fn``; if it fails, the future's ``result`` raises the error."""
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
