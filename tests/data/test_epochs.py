"""Epochs: every pair once, in batches that can be gone on from anywhere."""

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from stored_corpus import (
    BATCH_TOKENS,
    HUNDRED,
    corpus,
    numbers,
    pairs_of,
    rows,
    sharded_store,
    some_lengths,
)

from transformer_cli.data.batches import EpochBatches, collate
from transformer_cli.data.shards import ShardedStore, plan_epoch
from transformer_cli.data.store import EncodedText, Lengths

# --- epochs ---------------------------------------------------------------------------------------


def test_a_corpus_of_one_shard_is_batched_as_if_in_memory(tmp_path: Path) -> None:
    text, store = corpus(tmp_path, HUNDRED).both
    stored = EpochBatches(ShardedStore(store, 99), BATCH_TOKENS, seed=6)
    in_memory = EpochBatches(text, BATCH_TOKENS, seed=6)
    for epoch in range(3):
        plan = plan_epoch(text.lengths, BATCH_TOKENS, seed=6, epoch=epoch)
        planned = [rows(collate(text.take(indices))) for indices in plan]
        assert [rows(batch) for batch in stored.iter_epoch(epoch)] == planned
        assert [rows(batch) for batch in in_memory.iter_epoch(epoch)] == planned
        assert len(stored) == len(in_memory) == len(plan)


@pytest.mark.parametrize(
    ("count", "max_length", "shard_pairs", "page_pairs", "batches", "digest"),
    [
        (100, 99, 1000, 5, 18, "b6341e660b51fa2610ef3465e1d60cfc8bce9e6d58d2506485254efaeba6c599"),
        (100, 8, 30, 5, 9, "c09113a9c7d101f293cc7f5af3534c67121fd6a9078c82602861a3337001fc43"),
        (3000, 9, 600, 20, 259, "7abf5902d42692dee6e7b1963e3cbdff5fe7a36fed9bfbbd3ac5fd7e4d8abd09"),
        (
            *(3000, 99, 131072, 256, 443),
            "fe8669e17156b089d9046e8a2d180243e05ccc301de897cde946831b6043c137",
        ),
    ],
)
def test_batches_are_those_of_every_version(
    tmp_path: Path,
    count: int,
    max_length: int,
    shard_pairs: int,
    page_pairs: int,
    batches: int,
    digest: str,
) -> None:
    """By the SHA-256 of what version 0.1.0 made: a run may be gone on with by a later one."""
    store = corpus(tmp_path, some_lengths(count), page_pairs).store
    epochs = EpochBatches(ShardedStore(store, max_length, shard_pairs), 64, seed=6)
    assert len(epochs) == batches
    found = hashlib.sha256()
    for epoch in range(2):
        for batch in epochs.iter_epoch(epoch):
            found.update(repr(rows(batch)).encode())
    assert found.hexdigest() == digest


@pytest.mark.parametrize("max_length", [99, 8, 1])
@pytest.mark.parametrize("shard_pairs", [10, 30, 1000])
def test_an_epoch_has_every_pair_once_and_as_many_batches_as_said(
    tmp_path: Path, shard_pairs: int, max_length: int
) -> None:
    shards = sharded_store(tmp_path, HUNDRED, max_length, shard_pairs, page_pairs=5)
    epochs = EpochBatches(shards, BATCH_TOKENS, seed=1)
    for epoch in range(3):
        batches = list(epochs.iter_epoch(epoch))
        assert len(batches) == len(epochs)
        seen = Counter(number for batch in batches for number in pairs_of(batch))
        short = [number for number, pair in enumerate(HUNDRED) if max(pair) <= max_length]
        assert seen == Counter(short)


def test_an_epoch_can_be_gone_on_from_any_batch(tmp_path: Path) -> None:
    epochs = EpochBatches(sharded_store(tmp_path, HUNDRED, 99, 20, 5), BATCH_TOKENS, seed=1)
    whole = [rows(batch) for batch in epochs.iter_epoch(2)]
    for first in range(len(whole) + 1):
        assert [rows(batch) for batch in epochs.iter_epoch(2, first)] == whole[first:]


# --- order ----------------------------------------------------------------------------------------


def test_shards_and_batches_come_in_another_order_each_epoch(tmp_path: Path) -> None:
    shards = sharded_store(tmp_path, HUNDRED, 99, 20, 5)
    shard_of = {pair: number for number in range(5) for pair in numbers(shards.draw(number, 1, 0))}

    def orders(seed: int, epoch: int) -> tuple[list[int], list[list[int]]]:
        batches = [
            pairs_of(each) for each in EpochBatches(shards, BATCH_TOKENS, seed).iter_epoch(epoch)
        ]
        order = [shard_of[pairs[0]] for pairs in batches]
        assert all({shard_of[pair] for pair in pairs} == {shard_of[pairs[0]]} for pairs in batches)
        return list(dict.fromkeys(order)), batches

    keys = [(1, 0), (1, 1), (1, 2), (2, 0)]
    found = [orders(*key) for key in keys]
    assert found == [orders(*key) for key in keys]
    assert all(sorted(order) == list(range(5)) for order, _ in found)
    assert len({tuple(order) for order, _ in found}) > 1
    assert len({str(batches) for _, batches in found}) == 4


def test_shards_of_equal_lengths_are_mixed_differently(tmp_path: Path) -> None:
    # 40 equal pairs in two shards: only the random key of a shard mixes them.
    shards = sharded_store(tmp_path, [(3, 3)] * 40, 99, 20, 20)
    batches = [pairs_of(each) for each in EpochBatches(shards, BATCH_TOKENS, seed=1).iter_epoch(0)]
    halves = [
        [pair % 20 for pairs in half for pair in pairs] for half in (batches[:4], batches[4:])
    ]
    assert sorted(halves[0]) == sorted(halves[1]) == list(range(20))
    assert halves[0] != halves[1]


def test_one_shard_at_a_time_is_read(tmp_path: Path) -> None:
    @dataclass
    class Watched:
        inner: ShardedStore
        read: list[int]

        @property
        def num_shards(self) -> int:
            return self.inner.num_shards

        def shard_lengths(self, shard: int) -> Lengths:
            return self.inner.shard_lengths(shard)

        def draw(self, shard: int, seed: int, epoch: int) -> EncodedText:
            self.read.append(shard)
            return self.inner.draw(shard, seed, epoch)

    watched = Watched(sharded_store(tmp_path, HUNDRED, 99, 20, 5), [])
    epochs = EpochBatches(watched, BATCH_TOKENS, seed=1)
    assert watched.read == []
    for _ in epochs.iter_epoch(0):
        assert len(watched.read) == len(set(watched.read)) <= 5
    order = watched.read.copy()
    assert sorted(order) == list(range(5))
    watched.read.clear()
    # Going on from the last batch, nothing but the last shard is read.
    assert len(list(epochs.iter_epoch(0, len(epochs) - 1))) == 1
    assert watched.read == order[-1:]
