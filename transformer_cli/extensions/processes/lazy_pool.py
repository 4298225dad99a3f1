"""Local worker processes that start with their first task. This module is quick to import."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from transformer_cli.base.packages import lazy_imports
from transformer_cli.base.workers import OpenExecutor, count_cores

with lazy_imports():
    from transformer_cli.extensions.processes import spawning


def find_pool(_: None, place: Path) -> OpenExecutor | None:
    """Return a factory for an executor with one process per core; None if there is one core."""
    return partial(LazyPool, cores) if (cores := count_cores()) > 1 else None


class LazyPool(Executor):
    """An executor that starts its processes with the first task, as short text needs no tasks."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._stack = ExitStack()
        self._pool: Executor | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a task to the processes; start them if it is the first task."""
        if self._pool is None:
            self._pool = self._stack.enter_context(spawning.open_pool(self._workers))
        return self._pool.submit(fn, *args, **kwargs)

    def __exit__(self, *error: Any) -> bool | None:
        return self._stack.__exit__(*error)
