"""Encode a text in one worker process per core."""

import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Thread

from transformer_cli.data.store import PageEncoder, encode_serially
from transformer_cli.data.token_arrays import EncodedText, Pairs, encode_pairs
from transformer_cli.errors import TokenizerError, TransformerCliError
from transformer_cli.ranks import count_cores
from transformer_cli.text.protocol import Tokenizers
from transformer_cli.text.tokenizer import load_tokenizers

MIN_PAIRS_FOR_WORKERS = 50_000
"""Pairs from which on workers are worth the second that it takes to start them."""


def choose_encoder(tokenizers: Tokenizers, directory: Path, pairs: int) -> PageEncoder:
    """Return the fastest encoder for a text; its pages are the same either way."""
    workers = count_cores()
    if workers == 1 or pairs < MIN_PAIRS_FOR_WORKERS:
        return lambda pages: encode_serially(pages, tokenizers)
    return lambda pages: encode_in_workers(pages, directory, workers)


def encode_in_workers(
    pages: Iterable[Pairs], directory: Path, workers: int
) -> Generator[EncodedText, None, None]:
    """Yield pages encoded in worker processes, with one page each and one more in memory.

    Raises:
        TokenizerError: the tokenizers in ``directory`` cannot be loaded, or a worker has died.
    """
    others = set(multiprocessing.active_children())
    # Where this process is killed, the one that cleans up after it would warn of semaphores.
    sys.warnoptions.append("ignore:resource_tracker")
    # Not forked: the parent has threads, and torch.
    spawn = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(workers, spawn, initializer=_begin_worker)
    pending: deque[Future[EncodedText]] = deque()
    try:
        for pairs in pages:
            with _block_sigint():  # a worker may be started
                pending.append(executor.submit(_encode_in_worker, directory, pairs))
            if len(pending) > workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool:
        raise TokenizerError(
            "a process that encodes the training text was killed, or has crashed; start again, "
            "with more memory free if it was short"
        ) from None
    finally:
        # Ended first, as the executor would wait for pages that nobody needs any more.
        for worker in set(multiprocessing.active_children()) - others:
            worker.kill()
        executor.shutdown(cancel_futures=True)


@contextmanager
def _block_sigint() -> Iterator[None]:
    """Block Ctrl-C for the processes that are started inside the block.

    It signals all processes, but only this one handles it and ends the others. They keep it
    blocked; on Windows, which blocks no signals, they ignore it once they run.
    """
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # spaCy imports torch where it is installed: seconds and 200 MB per process, and never used.
    sys.modules["torch"] = None  # type: ignore[assignment]
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent has ended, of which the executor's queues do not tell."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


_load = cache(load_tokenizers)


def _encode_in_worker(directory: Path, pairs: Pairs) -> EncodedText:
    """Encode a page; every error is a TokenizerError, as some others cannot be sent."""
    try:
        return encode_pairs(pairs, _load(directory))
    except TransformerCliError as error:
        message = str(error)
    except Exception as error:
        message = f"{directory}: cannot encode ({type(error).__name__}: {error})"
    raise TokenizerError(message)
