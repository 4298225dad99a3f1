"""Processes of this machine that compute on text in pieces, and end with the one that has them.

What is submitted is a function of a module and small arguments.
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
    """Yield an executor of so many processes, which are killed at the end.

    Raises:
        WorkerError: a process has died.
    """
    others = set(multiprocessing.active_children())
    # Where this process is killed, the one that cleans up after it would warn of semaphores.
    sys.warnoptions.append("ignore:resource_tracker")
    # Not forked: the parent has threads, and torch.
    pool = _Pool(workers, multiprocessing.get_context("spawn"), initializer=_begin_worker)
    try:
        yield pool
    except BrokenProcessPool:
        raise WorkerError(
            "a worker process was killed, or has crashed; start again, with more memory free if "
            "it was short"
        ) from None
    finally:
        # Ended first, as the pool would wait for results that nobody needs any more.
        for worker in set(multiprocessing.active_children()) - others:
            worker.kill()
        pool.shutdown(cancel_futures=True)


class _Pool(ProcessPoolExecutor):
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        with block_sigint():  # a worker may be started
            return super().submit(fn, *args, **kwargs)


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # spaCy imports torch where it is installed: seconds and 200 MB per process, and never used.
    sys.modules["torch"] = None  # type: ignore[assignment]
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent has ended, of which the executor's queues do not tell."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def block_sigint() -> Iterator[None]:
    """Block Ctrl-C for the processes that are started inside the block.

    It signals all processes, but only this one handles it and ends the others. They keep it
    blocked; on Windows, which blocks no signals, they ignore it once they run.
    """
    if sys.platform == "win32":
        yield
        return
    from multiprocessing import resource_tracker  # which Windows has not

    # multiprocessing starts it with the first process, and then unblocks SIGINT.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
