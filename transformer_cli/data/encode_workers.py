"""Encode pages of line pairs as pages of ids: serially, or in one worker process per core.

A worker is a new interpreter that is given the tokenizers' directory. It receives pages of lines
through a pipe and sends back the pages' bytes. It exits when its pipe closes, so that none outlives
the process that started it, however that one ends.
"""

import multiprocessing
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
from transformer_cli.ranks import count_cores
from transformer_cli.text.tokenizer import Tokenizers, load_tokenizers

Pairs = list[tuple[str, str]]
PageEncoder = Callable[[Iterable[Pairs]], Generator[bytes, None, None]]
"""Yields each page of pairs as the bytes of ``pages.pack_page``, in order.

Close it unless it is exhausted: that ends its workers.
"""

MIN_PAIRS_FOR_WORKERS = 50_000
"""Pairs from which on workers are worth the second that it takes to start them."""


def choose_encoder(tokenizers: Tokenizers, directory: Path, pairs: int) -> PageEncoder:
    """Return the fastest encoder for a text; its bytes are the same either way.

    Args:
        tokenizers: one a side.
        directory: where they are saved.
        pairs: number of pairs to encode.
    """
    workers = count_cores()
    if workers == 1 or pairs < MIN_PAIRS_FOR_WORKERS:
        return lambda pages: encode_serially(pages, tokenizers)
    return lambda pages: encode_in_workers(pages, directory, workers)


def encode_serially(pages: Iterable[Pairs], tokenizers: Tokenizers) -> Generator[bytes, None, None]:
    """Yield pages encoded in this process."""
    for number, pairs in enumerate(pages):
        yield _encode_page(number, pairs, tokenizers)


def encode_in_workers(
    pages: Iterable[Pairs], directory: Path, workers: int
) -> Generator[bytes, None, None]:
    """Yield pages encoded in worker processes, with one page each and one more in memory.

    Raises:
        TokenizerError: the tokenizers in ``directory`` cannot be loaded, or a worker has died.
    """
    with _start_workers(directory, workers) as idle:
        busy: deque[_Worker] = deque()
        for number, pairs in enumerate(pages):
            if idle:
                worker, page = idle.pop(), None
            else:
                worker = busy.popleft()
                page = worker.receive()
            # It encodes this page while its last one is written and the next one is read.
            worker.send(number, pairs)
            busy.append(worker)
            if page is not None:
                yield page
        for worker in busy:
            yield worker.receive()


def _encode_page(number: int, pairs: Pairs, tokenizers: Tokenizers) -> bytes:
    encoded = [tokenizers.encode_pair(src, tgt) for src, tgt in pairs]
    return pack_page(number, [src for src, _ in encoded], [tgt for _, tgt in encoded])


@dataclass(frozen=True)
class _Worker:
    """A worker process, and our end of the pipe to it.

    It is sent a page only when idle, so that full pipes cannot deadlock.
    """

    process: SpawnProcess
    connection: "Connection[Any, Any]"

    def send(self, number: int, pairs: Pairs) -> None:
        try:
            self.connection.send((number, pairs))
        except OSError:
            # It may have sent the reason.
            self.receive()
            raise self._exit_error() from None

    def receive(self) -> bytes:
        try:
            answer = self.connection.recv()
        except (EOFError, OSError):
            raise self._exit_error() from None
        if isinstance(answer, str):
            raise TokenizerError(answer)
        assert isinstance(answer, bytes)
        return answer

    def _exit_error(self) -> TokenizerError:
        self.process.join(1.0)
        code = self.process.exitcode
        how = f"was ended by signal {-code}" if code and code < 0 else f"ended with code {code}"
        return TokenizerError(
            f"a process that encodes the training text {how}; start again, with more memory free "
            "if it was short"
        )


@contextmanager
def _start_workers(directory: Path, count: int) -> Iterator[list[_Worker]]:
    started: list[_Worker] = []
    try:
        with _block_sigint():
            for _ in range(count):
                started.append(_start(directory))
        yield started.copy()
    finally:
        for worker in started:
            worker.connection.close()
            worker.process.kill()
        for worker in started:
            worker.process.join()


@contextmanager
def _block_sigint() -> Iterator[None]:
    """Block Ctrl-C for the processes that are started inside the block.

    It signals all processes, but only this one handles it and ends the others. They keep it
    blocked; on Windows, which blocks no signals, they ignore it once they run.
    """
    if sys.platform == "win32":
        yield
        return
    # Python 3.11 lets signals through again when it starts this, so it has to run before.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start(directory: Path) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run_worker, args=(theirs, directory), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _run_worker(connection: "Connection[Any, Any]", directory: Path) -> None:
    """Receive pages of lines and send pages of ids, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # spaCy imports torch where it is installed: seconds and 200 MB per process, and never used.
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
