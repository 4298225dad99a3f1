"""A run's model in the two forms that requests need, and the requests that wait for it."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from threading import Event, RLock
from typing import Any, NamedTuple

from transformer_cli.base.errors import TransformerCliError
from transformer_cli.base.workers import count_cores
from transformer_cli.cli.translate import TranslateOptions
from transformer_cli.cli.translation import load_translator
from transformer_cli.extensions.alignments.aligning import with_alignments
from transformer_cli.extensions.alignments.word_links import map_tokens_to_words
from transformer_cli.extensions.constraints.torch_scores import score_tokens
from transformer_cli.extensions.growing.memory import Recalling
from transformer_cli.extensions.growing.memory_options import MemoryOptions
from transformer_cli.inference.translation import EncodedLine, Translation
from transformer_cli.inference.translator import TextTranslator, Watcher
from transformer_cli.runs.directory import RunDirectory

_DOUBTFUL = -1.6  # log-probability of a token; about half of the tokens below it are wrong
_PAUSE, _LONGEST_WAIT = 0.005, 0.04  # seconds; more requests make a larger, faster batch
_MOST_LINES = 256  # of a batch, so that a long list does not keep others waiting

ShouldStop = Callable[[], bool]


class Wanted(NamedTuple):
    """What a request wants to know about its lines."""

    n_best: int | None = None  # the number of scored translations; None: one, without a score
    is_detailed: bool = False  # whether to align words and to find doubtful ones


class Line(NamedTuple):
    """A line's translations, best first, and whether each word of the best one is doubtful."""

    translations: Sequence[Translation]
    doubtful: Sequence[bool] = ()


class Model:
    """A run's model.

    Attributes:
        options: the run, and how to translate with it.
        corrections: translations to use instead of the model's, keyed by source; it may grow.
        plain: the translator that writes the same text as the command ``translate``.
        detailed: the one that scores translations and, if its engine is torch, aligns words.
    """

    def __init__(self, options: TranslateOptions, corrections: Mapping[str, str]) -> None:
        self.options, self.corrections = options, corrections
        self.plain = self.detailed = self._load(options)
        is_fixed = options.precision == "int8" or RunDirectory(options.run).only_engine
        if self.plain.engine.name != "torch" and not is_fixed:
            self.detailed = self._load(replace(options, engine="torch"))

    def _load(self, options: TranslateOptions) -> TextTranslator[Any]:
        extras = tuple(each for each in options.extras if not isinstance(each, MemoryOptions))
        translator = load_translator(replace(options, extras=extras))
        translator = translator.extended_by(Recalling, memory=self.corrections, memory_sum="")
        return translator.extended_by(_InTurn) if translator.engine.name == "torch" else translator

    def translate(
        self, lines: Sequence[str], wanted: Wanted, should_stop: ShouldStop
    ) -> list[Line]:
        """Translate lines; see ``TextTranslator.translate_lines``."""
        watcher = Watcher(should_stop=should_stop)
        if wanted == Wanted():
            return [*map(Line, self.plain.translate_lines(lines, None, watcher))]
        translator = self.detailed
        is_aligned = wanted.is_detailed and translator.engine.name == "torch"
        if is_aligned:
            translator = with_alignments(translator)
        beam_size = max(wanted.n_best or 1, translator.decoding.beam_size)
        translator = translator.with_search(beam_size)
        encoded = translator.encode_lines(lines)
        found = translator.translate_encoded(encoded, wanted.n_best, watcher)
        if is_aligned:
            return [*map(Line, found, _find_doubtful(translator, encoded, found))]
        return [*map(Line, found)]


_TURN = RLock()


class _InTurn(TextTranslator[Any]):
    """A translator of which only one thread at a time searches, because torch uses all cores."""

    chunk_lines = 64
    """The lines of a long document that are translated before others have their turn."""

    def translate_encoded(self, *given: Any, **named: Any) -> list[list[Translation]]:
        with _TURN:
            return super().translate_encoded(*given, **named)


def _find_doubtful(
    translator: TextTranslator[Any],
    lines: Sequence[EncodedLine],
    found: Sequence[Sequence[Translation]],
) -> Iterator[list[bool]]:
    """Yield, for each line, whether each word of its best translation has unlikely tokens."""
    pairs = [(line, best) for line, (best, *_) in zip(lines, found, strict=True)]
    pieces = [each for line, best in pairs for each in zip(line.pieces, best.pieces, strict=False)]
    sources, targets = [source for source, _ in pieces], [piece.ids for _, piece in pieces]
    with _TURN:
        scores = iter(score_tokens(translator, sources, targets))
    for line, best in pairs:
        ids = [number for piece in best.pieces for number in piece.ids]
        tokens = translator.tokenizers.tgt.filled_tokens(ids, line.source.values)
        of_tokens = [score for piece in best.pieces for score in next(scores)[: len(piece.ids)]]
        words = zip(map_tokens_to_words(best.text, tokens), of_tokens, strict=False)
        unlikely = {word for word, score in words if score < _DOUBTFUL}
        yield [word in unlikely for word in range(len(best.text.split()))]


# --- requests -------------------------------------------------------------------------------------


class _Job(NamedTuple):
    model: Model
    lines: Sequence[str]
    wanted: Wanted
    found: "asyncio.Future[list[Line]]"

    @property
    def size(self) -> int:
        return len(self.lines)


def _translate(jobs: Sequence[_Job]) -> list[list[Line] | TransformerCliError]:
    """Translate the lines of jobs for the same model that want the same."""
    model, _, wanted, _ = jobs[0]
    lines = [line for job in jobs for line in job.lines]
    try:
        found = iter(model.translate(lines, wanted, lambda: all(job.found.done() for job in jobs)))
    except TransformerCliError as error:  # for example, a line has an unknown tag
        return [error] if len(jobs) == 1 else [*chain(*(_translate([job]) for job in jobs))]
    return [[*islice(found, job.size)] for job in jobs]


class ModelQueue:
    """Translates the lines of several requests at a time, with a model that may be exchanged.

    A request waits for others only while others are translated, and at most ``_LONGEST_WAIT``.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        """The model for the next requests."""
        # While one batch is translated, the next one is encoded, and answers are sent.
        is_torch = model.plain.engine.name == "torch"  # it searches for one worker at a time
        workers = 2 if is_torch else max(2, model.options.threads or count_cores())
        self._workers = self._idle = workers
        self._lines = ThreadPoolExecutor(self._workers, "lines")
        self._documents = ThreadPoolExecutor(1, "documents")
        self._html = ThreadPoolExecutor(1, "html")  # a document may take long
        self._waiting: deque[_Job] = deque()
        self._running = 0  # lines
        self._starting: asyncio.TimerHandle | None = None
        self._start_by = 0.0

    async def translate(self, model: Model, lines: Sequence[str], wanted: Wanted) -> list[Line]:
        """Translate lines with ``model``, a few at a time."""
        new_future = asyncio.get_running_loop().create_future
        jobs = [
            _Job(model, lines[start : start + _MOST_LINES], wanted, new_future())
            for start in range(0, len(lines), _MOST_LINES)
        ]
        self._waiting += jobs
        self._start_soon()
        return [*chain(*await asyncio.gather(*(job.found for job in jobs)))]

    async def translate_document(
        self, translate: Callable[[ShouldStop], Any], is_file: bool = True
    ) -> Any:
        """Call a function that translates a document until its argument says to stop."""
        stopped = Event()
        try:
            running = asyncio.get_running_loop().run_in_executor
            thread = self._documents if is_file else self._html
            return await running(thread, translate, stopped.is_set)
        finally:
            stopped.set()  # nobody waits for it any more

    def _start_soon(self) -> None:
        """Start a batch when it is as large as the others, or when requests pause.

        Clients that got the answers of a batch send their next requests one after the other.
        """
        loop = asyncio.get_running_loop()
        if self._starting is None:
            self._start_by = loop.time() + _LONGEST_WAIT
        else:
            self._starting.cancel()
        is_large = self._idle == self._workers or self._count_waiting() >= self._share()
        start_at = 0.0 if is_large else min(loop.time() + _PAUSE, self._start_by)
        self._starting = loop.call_at(start_at, self._start)

    def _share(self) -> int:
        """Return the number of lines of a batch if all workers had equal ones."""
        return -(-(self._running + self._count_waiting()) // self._workers)

    def _count_waiting(self) -> int:
        return sum(job.size for job in self._waiting)

    def _start(self) -> None:
        self._starting = None
        while self._idle and (jobs := self._take()):
            self._idle -= 1
            running = asyncio.get_running_loop().run_in_executor(self._lines, _translate, jobs)
            running.add_done_callback(partial(self._finish, jobs))

    def _take(self) -> list[_Job]:
        """Return jobs for the same model that want the same, a fair share of the lines."""
        self._waiting = deque(job for job in self._waiting if not job.found.done())
        left = min(self._share(), _MOST_LINES)
        taken: list[_Job] = []
        while self._waiting and left > 0:
            job = self._waiting[0]
            if taken and (job.model, job.wanted) != (taken[0].model, taken[0].wanted):
                break
            taken.append(self._waiting.popleft())
            left -= job.size
        self._running += sum(job.size for job in taken)
        return taken

    def _finish(self, jobs: Sequence[_Job], running: "asyncio.Future[list[Any]]") -> None:
        self._idle += 1
        self._running -= sum(job.size for job in jobs)
        self._start_soon()
        error = running.exception()
        for job, found in zip(
            jobs, [error] * len(jobs) if error else running.result(), strict=True
        ):
            if job.found.done():  # nobody waits for it any more
                continue
            if isinstance(found, BaseException):
                job.found.set_exception(found)
            else:
                job.found.set_result(found)
