"""Jobs that are run two at a time, and give their results in order."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import takewhile

from transformer_cli.inference.engine import Result


def run_ahead(jobs: Iterator[Callable[[], Result]], stop: Callable[[], object]) -> Iterator[Result]:
    """Yield the jobs' results, in order; the next job is made, and begins, before one is done.

    What making a job raises comes after the results of those before it, and a signal after the
    results that are finished: work that is done is not lost.
    """
    running: deque[Future[Result]] = deque()
    failure = None
    has_all = True  # whether every result that was taken from ``running`` has been yielded
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
            # Before the others are stopped. After a gap, results would be of other lines.
            finished = list(takewhile(Future.done, running)) if has_all else []
            stop()
            yield from (future.result() for future in finished)
            raise
        finally:
            stop()
    if not isinstance(failure, StopIteration):
        raise failure
