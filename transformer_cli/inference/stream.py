"""Chunks of a stream's lines, which one process or several translate together."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from threading import Event, Lock
from typing import Any

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
Chunk = tuple[Sequence[str], Sequence[str]]
"""Lines without line ends, and what the translation of each begins with."""
_Numbered = tuple[int, str, str]  # a line with its number and prefix


def chunk_lines_of(translator: TextTranslator[SearchEngine]) -> int:
    """Return how many lines a translator should translate together."""
    return CHUNK_LINES * (_GPU_CHUNKS if translator.engine.is_on_gpu else 1)


def translate_chunks(
    translator: TextTranslator[SearchEngine],
    chunks: Iterable[Chunk],
    n_best: int | None = None,
    first_line: int = 1,
    ranks: Ranks = SINGLE_PROCESS,
    reads_ahead: bool = False,
    watcher: Watcher = NOBODY,
) -> Iterator[list[list[Translation]]]:
    """Yield the translations of each chunk's lines, chunk by chunk.

    Args:
        translator: what translates.
        chunks: as many lines as are to be translated together, on each rank: ``chunk_lines_of``.
        n_best: see ``TextTranslator.translate_lines``.
        first_line: its number.
        ranks: who shares each chunk; all of them get all translations.
        reads_ahead: whether the engine may hold several chunks: not of a pipe, whose writer may
            wait for translations.
        watcher: its callbacks are called on each rank, and its ``progress`` from any thread.
    """
    stopped, reporting = Event(), Lock()

    def report(lines: int) -> None:
        with reporting:
            watcher.progress(lines * ranks.size)

    watching = watcher._replace(progress=report, should_stop=stopped.is_set)

    def encode(share: Sequence[_Numbered]) -> list[EncodedLine]:
        def tell(long: LongLine) -> None:
            watcher.on_long_line(replace(long, line=numbers[long.line - 1]))

        numbers, lines, prefixes = zip(*share, strict=True) if share else ((), (), ())
        return translator.encode_lines(lines, prefixes, on_long_line=tell)

    def translate(encoded: Sequence[EncodedLine]) -> list[list[Translation]]:
        return translator.translate_encoded(encoded, n_best, watching)

    def translate_share(share: Sequence[_Numbered]) -> list[list[Any]]:
        return [[one.fields for one in of_line] for of_line in translate(encode(share))]

    def translate_together(chunk: Sequence[_Numbered]) -> list[list[Translation]]:
        """Translate a chunk with the other ranks, to which JSON goes."""
        found = ranks.map(translate_share, chunk)
        return [[Translation(*fields) for fields in of_line] for of_line in found]

    def prepare() -> Iterator[Callable[[], list[list[Translation]]]]:
        """Check and encode each chunk; yield what translates it."""
        start = first_line
        for lines, prefixes in chunks:
            chunk = [*zip(range(start, start + len(lines)), lines, prefixes, strict=True)]
            start += len(lines)
            if any(prefixes):
                for number, line, prefix in chunk:
                    translator.check_prefix(line, prefix, number)  # on all ranks alike
            if ranks.size > 1:
                yield partial(translate_together, chunk)
            else:
                yield partial(translate, encode(chunk))

    if reads_ahead and ranks.size == 1:
        yield from translator.engine.run_jobs(prepare(), stopped.set)
    else:
        for job in prepare():
            yield job()
