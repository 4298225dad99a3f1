"""Processes of this machine that start with their first task. Light to import."""

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
    """Return what opens an executor with a process for each core; None: there is one core."""
    return partial(LazyPool, cores) if (cores := count_cores()) > 1 else None


class LazyPool(Executor):
    """Opens ``spawning.open_pool`` with the first task, as short text needs none."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._stack = ExitStack()
        self._pool: Executor | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Give a task to the processes, which are started if this is the first one."""
        if self._pool is None:
            self._pool = self._stack.enter_context(spawning.open_pool(self._workers))
        return self._pool.submit(fn, *args, **kwargs)

    def __exit__(self, *error: Any) -> bool | None:
        return self._stack.__exit__(*error)
