"""Encode a text into a store, as a stream: in this process, or in one worker process per core."""

import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import cache
from itertools import chain, islice
from pathlib import Path
from threading import Thread
from typing import BinaryIO, NamedTuple

import numpy as np

from transformer_cli.data.corpus import StreamedLines, StreamedText, digest_lines, fold_side
from transformer_cli.data.store import (
    ID,
    IDS,
    LENGTHS,
    LINES,
    PAGES,
    EncodedStore,
    StoreRecord,
    made_of,
    page_entry,
    store_artifact,
)
from transformer_cli.errors import TokenizerError, TransformerCliError
from transformer_cli.ranks import count_cores
from transformer_cli.text.protocol import ProgressBar, Tokenizers
from transformer_cli.text.tokenizer import load_tokenizers

PAGE_PAIRS = 256
"""Neighbouring pairs that are read together."""
MIN_PAIRS_FOR_WORKERS = 50_000
"""Pairs from which on workers are worth the second that it takes to start them."""

Pairs = list[tuple[str, str]]


class EncodedPage(NamedTuple):
    """A page as its files hold it; see store.py."""

    lengths: bytes
    ids: bytes


PageEncoder = Callable[[Iterable[Pairs]], Generator[EncodedPage, None, None]]
"""Yields each page of pairs encoded, in order; closing it ends its workers."""


def write_store(
    directory: Path,
    text: StreamedText,
    encode: PageEncoder,
    tokenizer: str,
    progress: ProgressBar,
    page_pairs: int = PAGE_PAIRS,
) -> EncodedStore:
    """Encode ``text`` into the directory ``directory``, which must not exist yet.

    ``tokenizer`` is the fingerprint of the tokenizers that ``encode`` uses.

    Raises:
        CorpusError: the text has changed since it was checked.
        TokenizerError: it cannot be encoded.
        OSError: the files cannot be written; nothing is left of them.
    """

    def write(made: Path) -> StoreRecord:
        pairs = _read_with_progress(text, progress)
        pages = iter(lambda: list(islice(pairs, page_pairs)), [])
        tokens = _write_pages(made, pages, encode)
        mtime_key = text.source.mtime_key()
        text.check_unchanged()
        return StoreRecord(
            made_of=made_of(text.stats.text_sha256, tokenizer),
            stats=replace(text.stats, mtime_key=mtime_key),
            page_pairs=page_pairs,
            src_tokens=tokens[0],
            tgt_tokens=tokens[1],
        )

    return EncodedStore(directory, store_artifact(directory).make(write))


def _read_with_progress(text: StreamedText, progress: ProgressBar) -> Iterator[tuple[str, str]]:
    """Yield the pairs of ``text``, with a bar that counts their sources."""
    targets: deque[str] = deque()

    def sources() -> Iterator[str]:
        for src, tgt in text.pairs():
            targets.append(tgt)
            yield src

    for src in progress(StreamedLines(sources, len(text)), "encoding"):
        yield src, targets.popleft()


def _write_pages(directory: Path, pages: Iterable[Pairs], encode: PageEncoder) -> tuple[int, int]:
    """Write the files of a store; return how many tokens the sources and the targets have."""
    src_tokens = tgt_tokens = 0
    with ExitStack() as stack:
        ids, lengths, table, lines = (
            stack.enter_context((directory / name).open("wb"))
            for name in (IDS, LENGTHS, PAGES, LINES)
        )
        encoded = stack.enter_context(closing(encode(_write_lines(lines, pages))))
        for page in encoded:
            table.write(page_entry(src_tokens + tgt_tokens, *page))
            lengths.write(page.lengths)
            ids.write(page.ids)
            src, tgt = np.frombuffer(page.lengths, ID).reshape(2, -1).sum(1).tolist()
            src_tokens, tgt_tokens = src_tokens + src, tgt_tokens + tgt
    return src_tokens, tgt_tokens


def _write_lines(file: BinaryIO, pages: Iterable[Pairs]) -> Iterator[Pairs]:
    """Write the digests of each page's lines before the page is encoded."""
    for page in pages:
        file.write(digest_lines(fold_side(side) for pair in page for side in pair).tobytes())
        yield page


def choose_encoder(tokenizers: Tokenizers, directory: Path, pairs: int) -> PageEncoder:
    """Return the fastest encoder for a text; its pages are the same either way."""
    workers = count_cores()
    if workers == 1 or pairs < MIN_PAIRS_FOR_WORKERS:
        return lambda pages: encode_serially(pages, tokenizers)
    return lambda pages: encode_in_workers(pages, directory, workers)


def encode_serially(
    pages: Iterable[Pairs], tokenizers: Tokenizers
) -> Generator[EncodedPage, None, None]:
    """Yield pages encoded in this process."""
    for pairs in pages:
        yield _encode(pairs, tokenizers)


def _encode(pairs: Pairs, tokenizers: Tokenizers) -> EncodedPage:
    return _pack([tokenizers.encode_pair(src, tgt) for src, tgt in pairs])


def _pack(encoded: list[tuple[list[int], list[int]]]) -> EncodedPage:
    sentences = [pair[side] for side in (0, 1) for pair in encoded]
    lengths = np.array([len(sentence) for sentence in sentences], ID)
    ids = np.fromiter(chain.from_iterable(sentences), ID, int(lengths.sum()))
    return EncodedPage(lengths.tobytes(), ids.tobytes())


# --- workers -------------------------------------------------------------------------------------


def encode_in_workers(
    pages: Iterable[Pairs], directory: Path, workers: int
) -> Generator[EncodedPage, None, None]:
    """Yield pages encoded in worker processes, with one page each and one more in memory.

    Raises:
        TokenizerError: the tokenizers in ``directory`` cannot be loaded, or a worker has died.
    """
    others = set(multiprocessing.active_children())
    # Not forked: the parent has threads, and torch.
    spawn = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(workers, spawn, initializer=_begin_worker)
    pending: deque[Future[EncodedPage | str]] = deque()
    try:
        for pairs in pages:
            with _block_sigint():  # a worker may be started
                pending.append(executor.submit(_encode_in_worker, directory, pairs))
            if len(pending) > workers:
                yield _check(pending.popleft().result())
        while pending:
            yield _check(pending.popleft().result())
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


def _check(result: EncodedPage | str) -> EncodedPage:
    if isinstance(result, str):
        raise TokenizerError(result)
    return result


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


def _encode_in_worker(directory: Path, pairs: Pairs) -> EncodedPage | str:
    """Return a page, or a message about what is wrong."""
    try:
        return _encode(pairs, _load(directory))
    except TransformerCliError as error:
        return str(error)
    except Exception as error:
        return f"{directory}: cannot encode ({type(error).__name__}: {error})"
