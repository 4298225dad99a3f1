"""Lines of a stream, translated chunk by chunk."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import islice, takewhile, zip_longest
from threading import Event, Lock
from typing import Any, TypeVar

from transformer_cli.base.errors import InputError
from transformer_cli.base.ranks import SINGLE_PROCESS, Ranks
from transformer_cli.inference.engine import SearchEngine
from transformer_cli.inference.translation import (
    NOBODY,
    EncodedLine,
    LongLine,
    Translation,
    Watcher,
)
from transformer_cli.inference.translator import TextTranslator

CHUNK_LINES = 1024
"""Lines read, sorted by length and translated together on a CPU."""
_GPU_CHUNKS = 4  # times as many on a GPU, whose batches would otherwise be small
_Numbered = tuple[int, tuple[str, str]]  # a line and its prefix
_Result = TypeVar("_Result")


def with_prefixes(
    lines: Iterable[str], prefixes: Iterable[str] | None, name: str, first_line: int = 1
) -> Iterator[tuple[str, str]]:
    """Yield each line with its prefix, of file ``name``; without any, with an empty one.

    Raises:
        InputError: there are fewer or more prefixes than lines.
    """
    if prefixes is None:
        yield from ((line, "") for line in lines)
        return
    for number, (line, prefix) in enumerate(zip_longest(lines, prefixes), start=first_line):
        if line is None or prefix is None:
            where = "goes on with" if line is None else "ends before"
            has = "does not have" if line is None else "has"
            raise InputError(
                f"{name}: {where} line {number:,}, which the input {has}; give a line, empty or "
                "not, for each of the input's"
            )
        yield line, prefix


def chunk_lines_of(translator: TextTranslator[SearchEngine]) -> int:
    """Return how many lines a translator should translate together."""
    return CHUNK_LINES * (_GPU_CHUNKS if translator.engine.is_on_gpu else 1)


def translate_stream(
    translator: TextTranslator[SearchEngine],
    lines: Iterable[tuple[str, str]],
    n_best: int | None = None,
    with_alignments: bool = False,
    chunk_lines: int = CHUNK_LINES,
    first_line: int = 1,
    ranks: Ranks = SINGLE_PROCESS,
    reads_ahead: bool = False,
    watcher: Watcher = NOBODY,
) -> Iterator[list[Translation]]:
    """Yield the translations of each line, in order, holding ``chunk_lines`` lines at a time.

    Args:
        translator: what translates.
        lines: text without line ends, and what its translations begin with.
        n_best: see ``TextTranslator.translate_lines``.
        with_alignments: likewise.
        chunk_lines: see ``chunk_lines_of``; on each rank.
        first_line: its number.
        ranks: who shares the work; all of them get all translations.
        reads_ahead: whether two chunks are held, if the engine can search both: not of a pipe,
            whose writer may wait for translations.
        watcher: its callbacks are called on each rank, and its ``progress`` from any thread.
    """
    stopped, reporting = Event(), Lock()

    def report(lines: int) -> None:
        with reporting:
            watcher.progress(lines * ranks.size)

    watching = watcher._replace(progress=report, should_stop=stopped.is_set)

    def encode(share: Sequence[_Numbered]) -> list[EncodedLine]:
        def tell(long: LongLine) -> None:
            watcher.on_long_line(replace(long, line=share[long.line - 1][0]))

        of_lines, prefixes = zip(*(line for _, line in share), strict=True)
        return translator.encode_lines(of_lines, prefixes, on_long_line=tell)

    def translate(encoded: Sequence[EncodedLine]) -> list[list[Translation]]:
        return translator.translate_encoded(encoded, n_best, with_alignments, watching)

    def translate_share(share: Sequence[_Numbered]) -> list[list[Any]]:
        found = translate(encode(share)) if share else []
        return [[one.fields for one in of_line] for of_line in found]

    def translate_together(chunk: Sequence[_Numbered]) -> list[list[Translation]]:
        """Translate a chunk with the other ranks, to which JSON goes."""
        found = ranks.map(translate_share, chunk)
        return [[Translation(*fields) for fields in of_line] for of_line in found]

    def prepare(chunk: Sequence[_Numbered]) -> Callable[[], list[list[Translation]]]:
        """Check and encode a chunk; return what translates it."""
        for number, (line, prefix) in chunk:
            translator.check_prefix(line, prefix, number)  # on all ranks alike
        if ranks.size > 1:
            return partial(translate_together, chunk)
        return partial(translate, encode(chunk))

    jobs = map(prepare, _chunks(lines, chunk_lines * ranks.size, first_line))
    is_ahead = reads_ahead and ranks.size == 1 and translator.engine.searches_at_once
    results = _run_ahead(jobs, stopped.set) if is_ahead else (job() for job in jobs)
    for found in results:
        yield from found


def _chunks(
    lines: Iterable[tuple[str, str]], size: int, first_line: int
) -> Iterator[list[_Numbered]]:
    numbered = enumerate(lines, start=first_line)
    while chunk := list(islice(numbered, size)):
        yield chunk


def _run_ahead(
    jobs: Iterator[Callable[[], _Result]], stop: Callable[[], object]
) -> Iterator[_Result]:
    """Yield the jobs' results, in order; the next job is made, and begins, before one is done.

    What making a job raises comes after the results of those before it, and a signal after the
    results that are finished: work that is done is not lost.
    """
    running: deque[Future[_Result]] = deque()
    failure = None
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
                    running.popleft()
                    yield result
        except (KeyboardInterrupt, SystemExit):  # SIGINT, SIGTERM
            finished = list(takewhile(Future.done, running))  # before the others are stopped
            stop()
            yield from (future.result() for future in finished)
            raise
        finally:
            stop()
    if not isinstance(failure, StopIteration):
        raise failure
