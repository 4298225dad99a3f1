"""A run's model in the two forms that requests need, and the requests that wait for it."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from threading import Event, RLock
from typing import Any, NamedTuple

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
_WAIT = 0.005  # seconds; more requests make a larger batch, which is faster
_MOST_LINES = 256  # of a batch, so that a long list does not keep others waiting


class Wanted(NamedTuple):
    """What a request wants to know about its lines.

    Attributes:
        n_best: the number of scored translations; None: one, without a score.
        is_detailed: whether to align words and to find doubtful ones.
    """

    n_best: int | None = None
    is_detailed: bool = False


class Line(NamedTuple):
    """A line's translations, best first, and the indices of doubtful words of the best one."""

    translations: Sequence[Translation]
    doubtful: Sequence[int] = ()


@dataclass(frozen=True)
class Model:
    """A run's model.

    Attributes:
        options: the run, and how to translate with it.
        corrections: translations to use instead of the model's, keyed by source; it may grow.
    """

    options: TranslateOptions
    corrections: Mapping[str, str]

    @cached_property
    def plain(self) -> TextTranslator[Any]:
        """The translator that writes the same text as the command ``translate``."""
        return self._load(self.options)

    @cached_property
    def detailed(self) -> TextTranslator[Any]:
        """The translator that scores translations and, if its engine is torch, aligns words."""
        is_torch, is_int8 = self.plain.engine.name == "torch", self.options.precision == "int8"
        if is_torch or is_int8 or RunDirectory(self.options.run).only_engine:
            return self.plain
        return self._load(replace(self.options, engine="torch"))

    def translate(
        self, lines: Sequence[str], wanted: Wanted, should_stop: Callable[[], bool]
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
        doubtful = _find_doubtful(translator, encoded, found) if is_aligned else [()] * len(lines)
        return [*map(Line, found, doubtful)]

    def _load(self, options: TranslateOptions) -> TextTranslator[Any]:
        extras = (each for each in options.extras if not isinstance(each, MemoryOptions))
        translator = load_translator(replace(options, extras=tuple(extras)))
        translator = translator.extended_by(Recalling, memory=self.corrections, memory_sum="")
        return translator.extended_by(_InTurn) if translator.engine.name == "torch" else translator


_TURN = RLock()


class _InTurn(TextTranslator[Any]):
    """A translator of which only one thread at a time searches, because torch uses all cores."""

    chunk_lines = 64
    """The lines of a long document that are translated before others have their turn."""

    def translate_encoded(self, *given: Any, **named: Any) -> list[list[Translation]]:
        """Translate when no other thread does; see ``TextTranslator.translate_encoded``."""
        with _TURN:
            return super().translate_encoded(*given, **named)


def _find_doubtful(
    translator: TextTranslator[Any],
    lines: Sequence[EncodedLine],
    found: Sequence[Sequence[Translation]],
) -> list[list[int]]:
    """Return the indices of the words with unlikely tokens in each line's best translation."""
    pairs = [
        (source, piece.ids)
        for line, (best, *_) in zip(lines, found, strict=True)
        for source, piece in zip(line.pieces, best.pieces, strict=False)
    ]
    sources, targets = [source for source, _ in pairs], [ids for _, ids in pairs]
    with _TURN:
        scores = iter(score_tokens(translator, sources, targets))
    doubtful = []
    for line, (best, *_) in zip(lines, found, strict=True):
        ids = [number for piece in best.pieces for number in piece.ids]
        tokens = translator.tokenizers.tgt.filled_tokens(ids, line.source.values)
        words = map_tokens_to_words(best.text, tokens)
        of_tokens = [score for piece in best.pieces for score in next(scores)[: len(piece.ids)]]
        marked = zip(words, of_tokens, strict=False)
        doubtful.append(sorted({word for word, score in marked if score < _DOUBTFUL}))
    return doubtful


# --- requests -------------------------------------------------------------------------------------


class _Job(NamedTuple):
    lines: Sequence[str]
    wanted: Wanted
    found: "asyncio.Future[list[Line]]"


class ModelQueue:
    """Translates the lines of several requests at a time, with a model that may be exchanged.

    A request waits for others only while others are translated, for a few milliseconds.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        """The model for the next requests."""
        is_torch = model.plain.engine.name == "torch"
        self._workers = 1 if is_torch else model.options.threads or count_cores()
        self._idle = self._workers
        self._lines = ThreadPoolExecutor(self._workers, "lines")
        self._documents = ThreadPoolExecutor(1, "documents")
        self._waiting: deque[tuple[Model, _Job]] = deque()
        self._starting: asyncio.TimerHandle | None = None

    async def translate(self, model: Model, lines: Sequence[str], wanted: Wanted) -> list[Line]:
        """Translate lines with ``model``, a few at a time."""
        futures = []
        for start in range(0, len(lines), _MOST_LINES):
            futures.append(asyncio.get_running_loop().create_future())
            job = _Job(lines[start : start + _MOST_LINES], wanted, futures[-1])
            self._waiting.append((model, job))
        self._start_soon()
        return [line for found in await asyncio.gather(*futures) for line in found]

    async def translate_document(self, translate: Callable[[Callable[[], bool]], bytes]) -> bytes:
        """Call a function that translates a document until its argument says to stop."""
        stopped = Event()
        try:
            running = asyncio.get_running_loop().run_in_executor
            return await running(self._documents, translate, stopped.is_set)
        finally:
            stopped.set()  # nobody waits for it any more

    def _start_soon(self) -> None:
        if self._starting is None:
            wait = _WAIT if self._idle < self._workers else 0
            self._starting = asyncio.get_running_loop().call_later(wait, self._start)

    def _start(self) -> None:
        self._starting = None
        while self._idle and (taken := self._take()):
            (model, (_, wanted, _)), jobs = taken[0], [job for _, job in taken]
            self._idle -= 1
            lines = [line for job in jobs for line in job.lines]
            work = partial(
                model.translate, lines, wanted, lambda jobs=jobs: all(j.found.done() for j in jobs)
            )
            running = asyncio.get_running_loop().run_in_executor(self._lines, work)
            running.add_done_callback(partial(self._finish, jobs))

    def _take(self) -> list[tuple[Model, _Job]]:
        """Return jobs for the same model that want the same, a fair share for each idle worker."""
        self._waiting = deque(each for each in self._waiting if not each[1].found.done())
        share = -(-sum(len(job.lines) for _, job in self._waiting) // self._idle)
        taken: list[tuple[Model, _Job]] = []
        count = 0
        while self._waiting and count < min(share, _MOST_LINES):
            model, job = self._waiting[0]
            if taken and (model is not taken[0][0] or job.wanted != taken[0][1].wanted):
                break
            taken.append(self._waiting.popleft())
            count += len(job.lines)
        return taken

    def _finish(self, jobs: Sequence[_Job], running: "asyncio.Future[list[Line]]") -> None:
        self._idle += 1
        self._start_soon()
        error, end = running.exception(), 0
        for job in jobs:
            start, end = end, end + len(job.lines)
            if error and not job.found.done():
                job.found.set_exception(error)
            elif not job.found.done():
                job.found.set_result(running.result()[start:end])
