"""Local worker processes that handle pieces of text, and end when their parent process does.

A task is a function defined at the top level of a module, with small arguments.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from threading import Thread
from typing import Any

from transformer_cli.base.errors import WorkerError


@contextmanager
def open_pool(workers: int) -> Iterator[Executor]:
    """Yield an executor with ``workers`` processes, which are killed when the block ends.

    Raises:
        WorkerError: a process has died.
    """
    others = set(multiprocessing.active_children())
    # If this process is killed, the resource tracker would warn about semaphores.
    sys.warnoptions.append("ignore:resource_tracker")
    # Do not fork: the parent has threads and torch.
    pool = _Pool(workers, multiprocessing.get_context("spawn"), initializer=_begin_worker)
    try:
        yield pool
    except BrokenProcessPool:
        raise WorkerError(
            "a worker process was killed or crashed; run the command again, with more free memory "
            "if it ran out"
        ) from None
    finally:
        # Kill workers first: the pool would wait for results that nobody needs any more.
        for worker in set(multiprocessing.active_children()) - others:
            worker.kill()
        pool.shutdown(cancel_futures=True)


class _Pool(ProcessPoolExecutor):
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        with block_sigint():  # this call may start a worker
            return super().submit(fn, *args, **kwargs)


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # If torch is installed, spaCy imports it without using it: seconds and 200 MB per process.
    sys.modules["torch"] = None  # type: ignore[assignment]
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent ends, which the executor's queues would not report."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def block_sigint() -> Iterator[None]:
    """Make processes that are started inside the block ignore Ctrl-C.

    Ctrl-C signals all processes, but only the parent should handle it, and then end the workers,
    which block the signal. Windows cannot block signals; there, workers ignore it once they run.
    """
    if sys.platform == "win32":
        yield
        return
    from multiprocessing import resource_tracker  # missing on Windows

    # multiprocessing starts the tracker with the first process, and then unblocks SIGINT.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
