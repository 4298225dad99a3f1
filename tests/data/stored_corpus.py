"""A small corpus in memory and on disk, whose pairs can be told apart."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from transformer_cli.data.batches import Batch
from transformer_cli.data.pages import pack_page
from transformer_cli.data.shards import ShardedStore
from transformer_cli.data.store import EncodedStore
from transformer_cli.data.store_writer import PAGE_PAIRS
from transformer_cli.data.token_arrays import EncodedText, TokenArray

PairLengths = list[tuple[int, int]]
BATCH_TOKENS = 24


@dataclass(frozen=True)
class Corpus:
    """The same pairs in memory and on disk; pair n holds nothing but the id n + 4."""

    text: EncodedText
    store: EncodedStore

    @property
    def both(self) -> tuple[EncodedText, EncodedStore]:
        return self.text, self.store


def corpus(directory: Path, lengths: PairLengths, page_pairs: int = PAGE_PAIRS) -> Corpus:
    text = EncodedText(
        *(
            TokenArray.from_sentences(
                [number] * pair[side] for number, pair in enumerate(lengths, start=4)
            )
            for side in (0, 1)
        )
    )
    sentences = [
        [side[index].tolist() for index in range(len(side))] for side in (text.src, text.tgt)
    ]
    pages, index = b"", b""
    for number, start in enumerate(range(0, len(lengths), page_pairs)):
        index += len(pages).to_bytes(8, "little")
        pages += pack_page(number, *(side[start : start + page_pairs] for side in sentences))
    directory.mkdir(exist_ok=True)
    (directory / "pages").write_bytes(pages)
    (directory / "index").write_bytes(index)
    tokens = (len(text.src.ids), len(text.tgt.ids))
    return Corpus(text, EncodedStore(directory, len(lengths), page_pairs, *tokens, "text", "print"))


def sharded_store(
    directory: Path, lengths: PairLengths, max_length: int, shard_pairs: int, page_pairs: int
) -> ShardedStore:
    store = corpus(directory, lengths, page_pairs).store
    return ShardedStore(store, max_length, BATCH_TOKENS, shard_pairs)


def some_lengths(count: int) -> PairLengths:
    random = np.random.default_rng(3)
    return [(int(src), int(tgt)) for src, tgt in random.integers(1, 12, (count, 2))]


def numbers(text: EncodedText) -> list[int]:
    """Which pairs of the corpus these are."""
    return [int(text.src[index][0]) - 4 for index in range(len(text))]


def rows(batch: Batch) -> tuple[list[list[int]], list[list[int]]]:
    return batch.src.tolist(), batch.tgt_out.tolist()


def pairs_of(batch: Batch) -> list[int]:
    return [int(row[0]) - 4 for row in batch.src]


HUNDRED = some_lengths(100)
