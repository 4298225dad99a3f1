"""Chunks of lines that are translated two at a time, and come out in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import takewhile
from threading import Event, Lock
from typing import Any, TypeVar

from transformer_cli.inference.translation import Translation, Watcher
from transformer_cli.inference.translator import TextTranslator

Result = TypeVar("Result")


def translate_ahead(
    translator: TextTranslator[Any],
    chunks: Iterable[Sequence[str]],
    n_best: int | None,
    first_line: int,
    watcher: Watcher,
) -> Iterator[list[list[Translation]]]:
    """Yield the translations of each chunk's lines; see ``TextTranslator.translate_chunks``.

    ``progress`` of ``watcher`` is called from any thread, by one at a time.
    """
    stopped, reporting = Event(), Lock()

    def report(lines: int) -> None:
        with reporting:
            watcher.progress(lines)

    watching = watcher._replace(progress=report, should_stop=stopped.is_set)

    def encode() -> Iterator[Callable[[], list[list[Translation]]]]:
        """Encode each chunk; yield what translates it."""
        number = first_line
        for lines in chunks:
            encoded = translator.encode_lines(lines, watcher, number)
            number += len(lines)
            yield partial(translator.translate_encoded, encoded, n_best, watching)

    return run_ahead(encode(), stopped.set)


def run_ahead(jobs: Iterator[Callable[[], Result]], stop: Callable[[], object]) -> Iterator[Result]:
    """Yield the jobs' results, in order; the next job is made, and begins, before one is done.

    So no core waits while a job ends. What making a job raises comes after the results of those
    before it, and a signal after the results that are finished: work that is done is not lost.
    ``stop`` makes the jobs that run end soon.
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
