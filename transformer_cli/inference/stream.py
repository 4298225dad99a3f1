"""Lines of a stream, translated chunk by chunk; doubtful translations, which are searched again."""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache, partial
from itertools import islice, takewhile, zip_longest
from operator import le
from threading import Event, Lock
from typing import Any, NamedTuple, TypeVar

from transformer_cli.base.errors import InputError
from transformer_cli.base.ranks import SINGLE_PROCESS, Ranks
from transformer_cli.inference.doubts import DoubtFinder
from transformer_cli.inference.engine import SearchEngine
from transformer_cli.inference.translator import (
    SECOND_BEAM,
    EncodedLine,
    LongLine,
    Progress,
    ShouldStop,
    TextTranslator,
    ignore,
    never,
)
from transformer_cli.text.protocol import Translation

CHUNK_LINES = 1024
"""Lines read, sorted by length and translated together on a CPU."""
_GPU_CHUNKS = 4  # times as many on a GPU, whose batches would otherwise be small
_Numbered = tuple[int, tuple[str, str]]  # a line and its prefix
_Result = TypeVar("_Result")


class Row(NamedTuple):
    """What is translated as one line, and written as one: a line of text, or a table's row."""

    text: str
    """The text to translate, on one line."""
    source: str
    """All of the row, as one line."""
    to_line: Callable[[str], str]
    """Returns the line that is written, given the translation."""


class Watcher(NamedTuple):
    """Callbacks for a translation's progress."""

    progress: Progress = ignore
    """Called with the number of lines just finished."""
    announce: Callable[[int], AbstractContextManager[object]] = nullcontext
    """Entered while so many doubtful lines are searched again."""


NOBODY = Watcher()


class TranslatedLine(NamedTuple):
    """What is written of a line."""

    text: str
    """Its best translation, or JSON of the n best."""
    alignment: str = ""
    """Empty if nobody asked."""
    best: str | None = None
    """Its best translation, if ``text`` is JSON."""
    doubt: str = ""
    """What is doubtful about the best translation; empty if nothing is."""
    is_second: bool = False
    """True if a second search has found it, as the first translation was doubtful."""


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
    on_long_line: Callable[[LongLine], object] = ignore,
    ranks: Ranks = SINGLE_PROCESS,
    reads_ahead: bool = False,
    watcher: Watcher = NOBODY,
) -> Iterator[TranslatedLine]:
    """Yield one record a line, in order, holding ``chunk_lines`` of them at a time.

    Args:
        translator: what translates.
        lines: text without line ends, and what its translations begin with.
        n_best: maximum number of translations, as a JSON object with their scores; None: the best
            one's text.
        with_alignments: whether the alignment of the best one is written too.
        chunk_lines: see ``chunk_lines_of``; on each rank.
        first_line: its number.
        on_long_line: called with each line too long to be translated as one, on its rank.
        ranks: who shares the work; all of them get all records.
        reads_ahead: whether two chunks are held, if the engine can search both: not of a pipe,
            whose writer may wait for translations.
        watcher: its ``progress`` counts each line once, from any thread; of several ranks, on each.
    """
    stopped, reporting = Event(), Lock()

    def encode(share: Sequence[_Numbered]) -> list[EncodedLine]:
        return translator.encode_lines(
            [line for _, (line, _) in share],
            [prefix for _, (_, prefix) in share],
            on_long_line=lambda long: on_long_line(replace(long, line=share[long.line - 1][0])),
        )

    def translate(share: Sequence[_Numbered], encoded: Sequence[EncodedLine]) -> list[list[Any]]:
        """Translate one rank's lines of a chunk; what goes from rank to rank is JSON."""

        def report(lines: int) -> None:
            with reporting:
                watcher.progress(lines * ranks.size)

        options = n_best, with_alignments, report, stopped.is_set
        best = translator.translate_encoded(encoded, *options)
        if n_best is None:
            again = with_alignments, watcher.announce, stopped.is_set
            best = search_doubtful_again(translator, encoded, best, *again)
        else:  # these are what the model says, good or bad
            best = tell_doubts(translator, encoded, best)
        return [
            _record(number, found, n_best is not None)
            for (number, _), found in zip(share, best, strict=True)
        ]

    def prepare(chunk: Sequence[_Numbered]) -> Callable[[], list[list[Any]]]:
        """Check and encode a chunk; return what translates it."""
        for number, (line, prefix) in chunk:
            translator.check_prefix(line, prefix, number)  # on all ranks alike
        if ranks.size > 1:
            return lambda: ranks.map(lambda share: translate(share, encode(share)), chunk)
        return partial(translate, chunk, encode(chunk))

    jobs = map(prepare, _chunks(lines, chunk_lines * ranks.size, first_line))
    is_ahead = reads_ahead and ranks.size == 1 and translator.engine.searches_at_once
    results = _run_ahead(jobs, stopped.set) if is_ahead else (job() for job in jobs)
    for records in results:
        yield from (TranslatedLine(*fields) for fields in records)


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


def _record(number: int, translations: Sequence[Translation], as_json: bool) -> list[Any]:
    """Return the fields of a ``TranslatedLine``."""
    best = translations[0]
    text = _to_json(number, translations) if as_json else best.text
    alignment = " ".join(f"{src}-{tgt}" for src, tgt in best.alignment)
    return [text, alignment, best.text if as_json else None, best.doubt, best.is_second]


def _to_json(line: int, translations: Sequence[Translation]) -> str:
    shown = [
        {"text": one.text, "score": round(one.score, 4)}
        | {"log_probability": round(one.log_probability, 4)}
        for one in translations
    ]
    return json.dumps({"line": line, "translations": shown}, ensure_ascii=False)


# --- doubts ---------------------------------------------------------------------------------------


_build_finder = cache(DoubtFinder)


def _finder_of(translator: TextTranslator[SearchEngine]) -> DoubtFinder:
    return _build_finder(translator.config.data.tgt_lang, translator.may_copy)


def tell_doubts(
    translator: TextTranslator[SearchEngine],
    encoded: Sequence[EncodedLine],
    found: Sequence[list[Translation]],
) -> list[list[Translation]]:
    """Return the translations of lines, the best of each with what is doubtful about it."""
    finder = _finder_of(translator)
    return [
        [replace(best, doubt=finder.find(line.text, best.text)), *others]
        for line, (best, *others) in zip(encoded, found, strict=True)
    ]


def search_doubtful_again(
    translator: TextTranslator[SearchEngine],
    encoded: Sequence[EncodedLine],
    found: Sequence[list[Translation]],
    with_alignments: bool = False,
    announce: Callable[[int], AbstractContextManager[object]] = nullcontext,
    should_stop: ShouldStop = never,
) -> list[list[Translation]]:
    """Return what ``tell_doubts`` does, after a second search for lines with a doubtful best one.

    Its beam is wider, and the best translation that is not doubtful and has lost no more of its
    source is taken; without one, the first stays. Samples are what the model says, good or bad.
    """
    told = tell_doubts(translator, encoded, found)
    places = [place for place, (best, *_) in enumerate(told) if best.doubt]
    if not places or translator.sample_seed is not None:
        return told
    beam_size = max(SECOND_BEAM, translator.decoding.beam_size)
    lines = [encoded[place] for place in places]
    wider = translator.with_search(beam_size)
    with announce(len(lines)):
        again = wider.translate_encoded(lines, beam_size, with_alignments, ignore, should_stop)
    finder = _finder_of(translator)
    compare = translator.tokenizers.compare
    for place, line, candidates in zip(places, lines, again, strict=True):
        first = told[place][0]
        most = compare(line.text, first.text)
        good = (
            replace(one, is_second=True)
            for one in candidates
            if not finder.find(line.text, one.text)
            and all(map(le, compare(line.text, one.text), most))
        )
        told[place] = [next(good, first)]
    return told
