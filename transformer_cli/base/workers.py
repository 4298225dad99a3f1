"""What computes on text in pieces: this process, or the workers that an extension has.

An extension provides a function that opens an executor of so many workers::

    provides = {"pool": {"threads": {"load": "threads:open_pool"}}}
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any

from transformer_cli.base import registry


@contextmanager
def open_pool(workers: int) -> Iterator[Executor]:
    """Yield an executor of so many workers, or of this process if nothing installed has any.

    Raises:
        WorkerError: a worker has died.
    """
    entry = next(iter(registry.entries("pool").values()), None)
    if workers == 1 or entry is None:
        yield SerialExecutor()
        return
    with entry.load()(workers) as executor:
        yield executor


class SerialExecutor(Executor):
    """Calls each function in this process: ``submit`` at once, ``map`` as a result is asked for."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call ``fn``; an error is raised by the future's ``result``."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future

    def map(self, fn: Callable[..., Any], *iterables: Iterable[Any], **_: Any) -> Iterator[Any]:
        """Yield each result, so that one who shows progress has some to show."""
        return map(fn, *iterables)
