"""Chunks of a stream's lines: each is encoded, and translated as one."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from threading import Event, Lock

from transformer_cli.inference.engine import SearchEngine
from transformer_cli.inference.translation import NOBODY, LongLine, Translation, Watcher
from transformer_cli.inference.translator import TextTranslator

CHUNK_LINES = 1024
"""Lines read, sorted by length and translated together on a CPU."""
_GPU_CHUNKS = 4  # times as many on a GPU, whose batches would otherwise be small
Chunk = tuple[Sequence[str], Sequence[str]]
"""Lines without line ends, and what the translation of each begins with."""


def chunk_lines_of(translator: TextTranslator[SearchEngine]) -> int:
    """Return how many lines a translator should translate together."""
    return CHUNK_LINES * (_GPU_CHUNKS if translator.engine.is_on_gpu else 1)


def translate_chunks(
    translator: TextTranslator[SearchEngine],
    chunks: Iterable[Chunk],
    n_best: int | None = None,
    first_line: int = 1,
    reads_ahead: bool = False,
    watcher: Watcher = NOBODY,
) -> Iterator[list[list[Translation]]]:
    """Yield the translations of each chunk's lines, chunk by chunk.

    Args:
        translator: what translates.
        chunks: as many lines as are to be translated together: ``chunk_lines_of``.
        n_best: see ``TextTranslator.translate_lines``.
        first_line: its number.
        reads_ahead: whether the engine may hold several chunks: not of a pipe, whose writer may
            wait for translations.
        watcher: its ``progress`` is called from any thread, by one at a time.
    """
    stopped, reporting = Event(), Lock()

    def report(lines: int) -> None:
        with reporting:
            watcher.progress(lines)

    watching = watcher._replace(progress=report, should_stop=stopped.is_set)

    def prepare() -> Iterator[Callable[[], list[list[Translation]]]]:
        """Check and encode each chunk; yield what translates it."""
        start = first_line
        for lines, prefixes in chunks:

            def tell(long: LongLine, before: int = start - 1) -> None:
                watcher.on_long_line(replace(long, line=before + long.line))

            for number, (line, prefix) in enumerate(zip(lines, prefixes, strict=True), start):
                if prefix:
                    translator.check_prefix(line, prefix, number)
            encoded = translator.encode_lines(lines, prefixes, on_long_line=tell)
            start += len(lines)
            yield partial(translator.translate_encoded, encoded, n_best, watching)

    if reads_ahead:
        yield from translator.engine.run_jobs(prepare(), stopped.set)
    else:
        for job in prepare():
            yield job()
