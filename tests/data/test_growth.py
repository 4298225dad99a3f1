"""What reading, encoding and batching hold at once does not grow with the corpus."""

import gc
import tracemalloc
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from transformer_cli.data import corpus
from transformer_cli.data.batches import EpochBatches
from transformer_cli.data.corpus import PairSource, StreamedText
from transformer_cli.data.shards import ShardedStore
from transformer_cli.data.store import open_store, write_store
from transformer_cli.text.protocol import Tokenizer, Tokenizers


class Digits(Tokenizer):
    """A tokenizer of digits."""

    size = 10

    def encode(self, line: str) -> list[int]:
        return [int(digit) for digit in line]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(map(str, ids))

    def token(self, number: int) -> str:
        return str(number)


@dataclass(frozen=True)
class Numbers(PairSource):
    """So many pairs that are made as they are read."""

    count: int

    def pairs(self) -> Iterator[tuple[str, str]]:
        random = np.random.default_rng(1)
        for _ in range(self.count):
            src, tgt = random.integers(1, 12, 2)
            yield "7" * int(src), "8" * int(tgt)

    def source_sha256(self) -> str:
        return str(self.count)


def peak_of_an_epoch(directory: Path, pairs: int) -> int:
    """Most bytes held from the first look at the text to the end of an epoch."""
    tokenizer = Digits()
    gc.collect()
    gc.disable()  # what the collector itself holds comes and goes
    tracemalloc.start()
    try:
        text = StreamedText.of(Numbers(pairs))
        tokenizers = Tokenizers(tokenizer, tokenizer)
        write_store(directory, text, lambda: tokenizers, "print", page_pairs=64)
        store = open_store(directory, text.stats.text_sha256, "print")
        assert store is not None
        parts = ShardedStore(store, max_length=10, shard_pairs=512)
        batches = EpochBatches(parts, batch_tokens=500, seed=1)
        assert sum(len(batch.src) for batch in batches.iter_epoch(0)) == parts.num_pairs
        assert parts.num_pairs > 0.7 * pairs
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.enable()


def peaks(directory: Path) -> tuple[int, int]:
    """Peaks of a small and of a large corpus."""
    # Both corpora have many of each.
    corpus.BLOCK_PAIRS = corpus.MIN_PAIRS_FOR_WORKERS = 256
    vars(corpus)["_BLOCK_BYTES"] = 1 << 12
    peak_of_an_epoch(directory / "first", 600)  # what is made once a process
    small = peak_of_an_epoch(directory / "small", 2_000)
    return small, peak_of_an_epoch(directory / "large", 20_000)


@pytest.mark.long
def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    # In a process of its own: tracemalloc counts what threads that other tests left allocate too.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        small, large = alone.submit(peaks, tmp_path).result()
    # One number a pair would be twice as much.
    assert large < 1.5 * small
