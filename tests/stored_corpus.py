"""A small corpus in memory and on disk, whose pairs can be told apart."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from transformer_cli.base.artifact import write_record
from transformer_cli.data.batches import Batch
from transformer_cli.data.corpus import TextStats
from transformer_cli.data.shards import ShardedStore
from transformer_cli.data.store import (
    ID,
    PAGE_PAIRS,
    EncodedStore,
    EncodedText,
    StoreRecord,
    TokenArray,
    cut_pages,
    pack_page,
)

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
    directory.mkdir(exist_ok=True)
    start = 0
    with (directory / "ids").open("wb") as ids, (directory / "pages").open("wb") as table:
        for page in cut_pages([text], page_pairs):
            entry, own = pack_page(page, start)
            table.write(entry)
            ids.write(own)
            start += len(own) // ID.itemsize
    tokens = (len(text.src.ids), len(text.tgt.ids))
    return Corpus(text, described(directory, len(lengths), page_pairs, tokens))


def described(
    directory: Path, pairs: int, page_pairs: int, tokens: tuple[int, int] = (0, 0)
) -> EncodedStore:
    """A store of these files, whatever its store.json says."""
    src_tokens, tgt_tokens = tokens
    record = StoreRecord(
        made_of={"text": "text", "tokenizer": "print"},
        stats=TextStats("text", pairs, blank=0),
        page_pairs=page_pairs,
        src_tokens=src_tokens,
        tgt_tokens=tgt_tokens,
    )
    directory.mkdir(exist_ok=True)
    write_record(directory / "store.json", record)
    return EncodedStore(directory, record)


def sharded_store(
    directory: Path, lengths: PairLengths, max_length: int, shard_pairs: int, page_pairs: int
) -> ShardedStore:
    store = corpus(directory, lengths, page_pairs).store
    return ShardedStore(store, max_length, shard_pairs)


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
