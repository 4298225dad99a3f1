"""Pairs of lines made into pages of ids: by this process, or by one process a core.

A worker is a new interpreter that knows no more than the tokenizers' directory. It is handed a page
of lines through a pipe and gives back the page's bytes. It ends when its pipe does, so that none
outlives the process that started it, however that one ends.
"""

import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from transformer_cli.data.pages import pack_page
from transformer_cli.errors import TokenizerError, TransformerCliError
from transformer_cli.text.tokenizer import Tokenizers, load_tokenizers

Pairs = list[tuple[str, str]]
Encode = Callable[[Iterable[Pairs]], Generator[bytes, None, None]]
"""Makes pages of pairs into the bytes of ``pages.pack_page``, in their order.

Who does not go through all of them closes it, which ends its processes.
"""

PROCESSES_FROM = 50_000
"""Pairs from which on processes are worth the second that it takes to start them."""


def encoder(tokenizers: Tokenizers, directory: Path, pairs: int) -> Encode:
    """What encodes a text of so many pairs fastest; the bytes are the same either way.

    Args:
        tokenizers: one a side.
        directory: where they are kept.
        pairs: how many are to be encoded.
    """
    processes = _cores()
    if processes == 1 or pairs < PROCESSES_FROM:
        return lambda pages: encode_here(pages, tokenizers)
    return lambda pages: encode_in_processes(pages, directory, processes)


def encode_here(pages: Iterable[Pairs], tokenizers: Tokenizers) -> Generator[bytes, None, None]:
    """Encode in this process."""
    for number, pairs in enumerate(pages):
        yield _encode_page(number, pairs, tokenizers)


def encode_in_processes(
    pages: Iterable[Pairs], directory: Path, processes: int
) -> Generator[bytes, None, None]:
    """Encode in so many new processes; a page for each of them, and one more, is held.

    Raises:
        TokenizerError: the tokenizers in ``directory`` cannot be loaded, or a process has died.
    """
    with _workers(directory, processes) as idle:
        busy: deque[_Worker] = deque()
        for number, pairs in enumerate(pages):
            if idle:
                worker, page = idle.pop(), None
            else:
                worker = busy.popleft()
                page = worker.take()
            # It works on while its last page is written and the next one is read.
            worker.give(number, pairs)
            busy.append(worker)
            if page is not None:
                yield page
        for worker in busy:
            yield worker.take()


def _encode_page(number: int, pairs: Pairs, tokenizers: Tokenizers) -> bytes:
    return pack_page(
        number,
        [tokenizers.src.encode(src) for src, _ in pairs],
        [tokenizers.tgt.encode(tgt) for _, tgt in pairs],
    )


@dataclass(frozen=True)
class _Worker:
    """A process, and this side's end of the pipe to it.

    It is given a page only when idle, so that the two never wait for each other with full pipes.
    """

    process: SpawnProcess
    connection: "Connection[Any, Any]"

    def give(self, number: int, pairs: Pairs) -> None:
        try:
            self.connection.send((number, pairs))
        except OSError:
            # It may have said why.
            self.take()
            raise self._death() from None

    def take(self) -> bytes:
        try:
            answer = self.connection.recv()
        except (EOFError, OSError):
            raise self._death() from None
        if isinstance(answer, str):
            raise TokenizerError(answer)
        assert isinstance(answer, bytes)
        return answer

    def _death(self) -> TokenizerError:
        self.process.join(1.0)
        code = self.process.exitcode
        how = f"was ended by signal {-code}" if code and code < 0 else f"ended with code {code}"
        return TokenizerError(
            f"a process that encodes the training text {how}; start again, with more memory free "
            "if it was short"
        )


@contextmanager
def _workers(directory: Path, count: int) -> Iterator[list[_Worker]]:
    started: list[_Worker] = []
    # Python 3.11 lets signals through again when it starts this, so it has to run before.
    resource_tracker.ensure_running()
    try:
        # Ctrl-C goes to all processes. It is for this one, which then ends the others: they are
        # born with it blocked, and stay so.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for _ in range(count):
                started.append(_start(directory))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield started.copy()
    finally:
        for worker in started:
            worker.connection.close()
            worker.process.kill()
        for worker in started:
            worker.process.join()


def _start(directory: Path) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, directory), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _work(connection: "Connection[Any, Any]", directory: Path) -> None:
    """What a worker does: pages of lines in, pages of ids out, until nobody is there any more."""
    # spaCy imports it where it is installed: seconds and 200 MB a process, and nothing uses it.
    sys.modules["torch"] = None  # type: ignore[assignment]
    with suppress(EOFError, ConnectionError):
        try:
            tokenizers = load_tokenizers(directory)
            while True:
                number, pairs = connection.recv()
                connection.send(_encode_page(number, pairs, tokenizers))
        except (EOFError, ConnectionError):
            raise
        except TransformerCliError as error:
            connection.send(str(error))
        except Exception as error:
            connection.send(f"{directory}: cannot encode ({type(error).__name__}: {error})")


def _cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
