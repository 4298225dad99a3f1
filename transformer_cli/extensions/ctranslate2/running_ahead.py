"""Runs jobs two at a time, so that lines are encoded while others are translated."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import takewhile
from typing import TypeVar

Result = TypeVar("Result")


def run_ahead(jobs: Iterator[Callable[[], Result]], stop: Callable[[], object]) -> Iterator[Result]:
    """Call the functions ``jobs``, two at a time in threads, and yield their results in order.

    So no core is idle when a call ends. Finished work is not lost: if ``jobs`` itself fails, the
    error is raised after the results of earlier calls, and a signal is raised after those of
    finished calls. ``stop`` makes running calls end soon.
    """
    running: deque[Future[Result]] = deque()
    failure = None
    has_all = True  # whether all results taken from ``running`` were yielded
    with ThreadPoolExecutor(max_workers=2) as pool:
        try:
            while running or failure is None:
                if failure is None:
                    try:
                        running.append(pool.submit(next(jobs)))
                    except Exception as error:
                        failure = error
                if running and (len(running) == 2 or failure is not None):
                    result = running[0].result()
                    has_all = False
                    running.popleft()
                    yield result
                    has_all = True
        except (KeyboardInterrupt, SystemExit):  # SIGINT, SIGTERM
            # Collect these before stopping the others. Results after a gap would be misaligned.
            finished = list(takewhile(Future.done, running)) if has_all else []
            stop()
            yield from (future.result() for future in finished)
            raise
        finally:
            stop()
    if not isinstance(failure, StopIteration):
        raise failure
