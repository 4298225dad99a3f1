"""A model that a server translates with, and the requests that wait for it."""

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
from transformer_cli.config.choices import LARGEST_BEAM
from transformer_cli.extensions.alignments.aligning import with_alignments
from transformer_cli.extensions.alignments.word_links import map_tokens_to_words
from transformer_cli.extensions.constraints.torch_scores import score_tokens
from transformer_cli.extensions.growing.memory import Recalling
from transformer_cli.extensions.growing.memory_options import MemoryOptions
from transformer_cli.inference.translation import EncodedLine, Translation
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.runs.directory import RunDirectory

MOST_ALTERNATIVES = LARGEST_BEAM - 1
_DOUBTFUL = -1.6  # log-probability of a token; the model is right about half of such tokens


class Kind(NamedTuple):
    """What a request wants to know about its lines."""

    n_best: int | None = None
    """How many scored translations; None: one, without scores."""
    detailed: bool = False
    """Whether to align words, and to find doubtful ones."""


class Line(NamedTuple):
    """The translations of a line, best first."""

    translations: Sequence[Translation]
    doubtful: tuple[int, ...] = ()
    """The indices of doubtful words of the best translation, if they were asked for."""


@dataclass(frozen=True)
class Model:
    """A run's model, as it is at one time.

    Attributes:
        options: the run, and how to translate with it.
        corrections: translations that replace the model's, keyed by source; others may add some.
    """

    options: TranslateOptions
    corrections: Mapping[str, str]

    @cached_property
    def plain(self) -> TextTranslator[Any]:
        """The translator that writes the same text as the command ``translate``."""
        return self._load(self.options)

    @cached_property
    def detailed(self) -> TextTranslator[Any]:
        """A translator that can align words and score alternatives, if the model supports it."""
        is_fixed = self.plain.engine.name == "torch" or self.options.precision == "int8"
        if is_fixed or RunDirectory(self.options.run).only_engine:
            return self.plain
        return self._load(replace(self.options, engine="torch"))

    @property
    def workers(self) -> int:
        """How many batches to translate at the same time."""
        is_torch = self.plain.engine.name == "torch"
        return 1 if is_torch else self.options.threads or count_cores()

    def translate(self, lines: Sequence[str], kind: Kind) -> list[Line]:
        """Translate lines; see ``TextTranslator.translate_lines``."""
        if kind == Kind():
            return [Line(found) for found in self.plain.translate_lines(lines, None)]
        translator = self.detailed
        detailed = kind.detailed and translator.engine.name == "torch"
        if detailed:
            translator = with_alignments(translator)
        beam_size = max(kind.n_best or 1, translator.decoding.beam_size)
        translator = translator.with_search(beam_size)
        encoded = translator.encode_lines(lines)
        found = translator.translate_encoded(encoded, kind.n_best)
        doubtful = _find_doubtful(translator, encoded, found) if detailed else [()] * len(lines)
        return [*map(Line, found, doubtful)]

    def _load(self, options: TranslateOptions) -> TextTranslator[Any]:
        extras = (each for each in options.extras if not isinstance(each, MemoryOptions))
        translator = load_translator(replace(options, extras=tuple(extras)))
        translator = translator.extended_by(Recalling, memory=self.corrections, memory_sum="")
        return translator.extended_by(_InTurn) if translator.engine.name == "torch" else translator


class _InTurn(TextTranslator[Any]):
    """A translator of which only one thread at a time searches, as torch uses all cores."""

    chunk_lines = 64
    """A long document does not keep others waiting."""

    def translate_encoded(self, *given: Any, **named: Any) -> list[list[Translation]]:
        """Translate when no other thread does; see ``TextTranslator.translate_encoded``."""
        with _TURN:
            return super().translate_encoded(*given, **named)


_TURN = RLock()


def _find_doubtful(
    translator: TextTranslator[Any],
    lines: Sequence[EncodedLine],
    found: Sequence[Sequence[Translation]],
) -> list[tuple[int, ...]]:
    """Return the indices of the words with unlikely tokens in each line's best translation."""
    pairs = [
        (source, piece.ids)
        for line, (best, *_) in zip(lines, found, strict=True)
        for source, piece in zip(line.pieces, best.pieces, strict=False)
    ]
    sources, targets = [source for source, _ in pairs], [ids for _, ids in pairs]
    batch_tokens = translator.decoding.batch_tokens
    with _TURN:
        scores = iter(score_tokens(translator.engine, sources, targets, batch_tokens))
    doubtful = []
    for line, (best, *_) in zip(lines, found, strict=True):
        ids = [number for piece in best.pieces for number in piece.ids]
        tokens = translator.tokenizers.tgt.filled_tokens(ids, line.source.values)
        words = map_tokens_to_words(best.text, tokens)
        of_tokens = [score for piece in best.pieces for score in next(scores)[: len(piece.ids)]]
        unlikely = {
            word for word, score in zip(words, of_tokens, strict=False) if score < _DOUBTFUL
        }
        doubtful.append(tuple(sorted(unlikely)))
    return doubtful


# --- requests -------------------------------------------------------------------------------------

_WAIT = 0.005  # seconds; more requests make a larger batch, which is faster


class _Job(NamedTuple):
    lines: Sequence[str]
    kind: Kind
    found: "asyncio.Future[tuple[list[Line], Model]]"


class ModelQueue:
    """Translates what waits, as much at a time as possible, with a model that may be exchanged.

    A request waits for others only while other requests are translated, for a few milliseconds.
    Each is translated by one model as a whole.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        """The model for the next batches."""
        self._workers = self._idle = model.workers
        self._pool = ThreadPoolExecutor(self._workers, "translating")
        self._starting: asyncio.TimerHandle | None = None
        self._waiting: deque[_Job] = deque()

    async def translate(self, lines: Sequence[str], kind: Kind) -> tuple[list[Line], Model]:
        """Translate lines; return also the model that did it."""
        if not lines:
            return [], self.model
        job = _Job(lines, kind, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        self._start_soon()
        return await job.found

    async def translate_document(
        self, translate: Callable[[Model, Callable[[], bool]], Any]
    ) -> Any:
        """Call a function with the model, in a thread, and with one that says whether to stop."""
        stopped = Event()
        try:
            return await asyncio.to_thread(translate, self.model, stopped.is_set)
        finally:
            stopped.set()  # nobody waits for it any more

    def _start_soon(self) -> None:
        if self._starting is None:
            wait = _WAIT if self._idle < self._workers else 0
            self._starting = asyncio.get_running_loop().call_later(wait, self._start)

    def _start(self) -> None:
        self._starting = None
        while self._idle and (jobs := self._take()):
            self._idle -= 1
            lines = [line for job in jobs for line in job.lines]
            work = partial(self.model.translate, lines, jobs[0].kind)
            running = asyncio.get_running_loop().run_in_executor(self._pool, work)
            running.add_done_callback(partial(self._finish, jobs, self.model))

    def _take(self) -> list[_Job]:
        """Return requests of the same kind, at most a fair share for each idle worker."""
        while self._waiting and self._waiting[0].found.done():  # nobody waits for it any more
            self._waiting.popleft()
        most = -(-sum(len(job.lines) for job in self._waiting) // self._idle)
        jobs: list[_Job] = []
        count = 0
        while self._waiting and count < min(most, self.model.plain.chunk_lines):
            if jobs and self._waiting[0].kind != jobs[0].kind:
                break
            jobs.append(self._waiting.popleft())
            count += len(jobs[-1].lines)
        return jobs

    def _finish(
        self, jobs: Sequence[_Job], model: Model, running: "asyncio.Future[list[Line]]"
    ) -> None:
        self._idle += 1
        self._start_soon()
        error = running.exception()
        found = iter([] if error else running.result())
        for job in jobs:
            if job.found.done():
                [*zip(job.lines, found, strict=False)]
            elif error:
                job.found.set_exception(error)
            else:
                job.found.set_result(([next(found) for _ in job.lines], model))
