"""Translates two chunks of lines at a time, and returns their translations in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import takewhile
from threading import Event, Lock
from typing import Any, TypeVar

from transformer_cli.inference.translation import Translation
from transformer_cli.inference.translator import TextTranslator, Watcher

Result = TypeVar("Result")


def translate_ahead(
    translator: TextTranslator[Any],
    chunks: Iterable[Sequence[str]],
    n_best: int | None,
    first_line: int,
    watcher: Watcher,
) -> Iterator[list[list[Translation]]]:
    """Yield a list for each chunk, with its lines' translations; see ``translate_chunks``.

    ``watcher.progress`` is called from several threads, but only from one at a time.
    """
    stopped, reporting = Event(), Lock()

    def report(lines: int) -> None:
        with reporting:
            watcher.progress(lines)

    watching = watcher._replace(progress=report, should_stop=stopped.is_set)

    def encode() -> Iterator[Callable[[], list[list[Translation]]]]:
        """Encode each chunk, and yield a function that translates it."""
        number = first_line
        for lines in chunks:
            encoded = translator.encode_lines(lines, watcher, number)
            number += len(lines)
            yield partial(translator.translate_encoded, encoded, n_best, watching)

    return run_ahead(encode(), stopped.set)


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
