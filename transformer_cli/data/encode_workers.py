"""Encode a text in one worker process per core."""

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future
from functools import cache
from pathlib import Path

from transformer_cli.data.store import PageEncoder, encode_serially
from transformer_cli.data.token_arrays import EncodedText, Pairs, encode_pairs
from transformer_cli.data.workers import open_pool
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
        TokenizerError: the tokenizers in ``directory`` cannot be loaded.
        WorkerError: a worker has died.
    """
    pending: deque[Future[EncodedText]] = deque()
    with open_pool(workers) as executor:
        for pairs in pages:
            pending.append(executor.submit(_encode_in_worker, directory, pairs))
            if len(pending) > workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


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
