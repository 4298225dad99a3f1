"""Mixing: weights decide how often a pair is drawn, tags stand before its source."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from stored_corpus import BATCH_TOKENS, HUNDRED, corpus, pairs_of, rows

from transformer_cli.data.batches import EpochBatches
from transformer_cli.data.shards import ShardedStore
from transformer_cli.extensions.corpora.mixing import MixedStore, TrainingMix

TAG = 777


def mixed(directory: Path, mix: TrainingMix, shard_pairs: int = 100) -> MixedStore:
    store = corpus(directory, HUNDRED, page_pairs=5).store
    return MixedStore(store, 99, mix, shard_pairs)


def drawn(epochs: EpochBatches, epoch: int) -> Counter[int]:
    return Counter(pair for batch in epochs.iter_epoch(epoch) for pair in pairs_of(batch))


@pytest.mark.parametrize("shard_pairs", [100, 25])
def test_a_pair_is_drawn_as_often_as_its_source_weighs(tmp_path: Path, shard_pairs: int) -> None:
    mix = TrainingMix((20, 40, 40), (3.0, 1.0, 0.5), (None,) * 3)
    epochs = EpochBatches(mixed(tmp_path, mix, shard_pairs), BATCH_TOKENS, seed=1)
    for epoch in range(4):
        counts = drawn(epochs, epoch)
        assert [counts[pair] for pair in range(60)] == [3] * 20 + [1] * 40
        assert sum(counts[pair] for pair in range(60, 100)) == 20
        assert max(counts[pair] for pair in range(60, 100)) == 1


@pytest.mark.long
@pytest.mark.parametrize("weight", [0.75, 0.9, 0.4, 0.25, 1.7])
def test_all_pairs_of_a_source_are_drawn_equally_often(tmp_path: Path, weight: float) -> None:
    mix = TrainingMix((40, 60), (1.0, weight), (None, None))
    epochs = EpochBatches(mixed(tmp_path, mix), BATCH_TOKENS, seed=1)
    total: Counter[int] = Counter()
    for epoch in range(40):
        total += drawn(epochs, epoch)
    counts = [total[pair] for pair in range(40, 100)]
    assert sum(counts) == 40 * round(60 * weight)
    assert max(counts) - min(counts) <= 3
    assert abs(counts[0] - 40 * weight) <= 2


def test_a_little_weight_leaves_no_source_out(tmp_path: Path) -> None:
    mix = TrainingMix((99, 1), (1.0, 0.001), (None, None))
    assert drawn(EpochBatches(mixed(tmp_path, mix), BATCH_TOKENS, seed=1), 0)[99] == 1


@pytest.mark.long
@given(
    st.floats(0.05, 3.5), st.floats(0.05, 3.5), st.integers(0, 50), st.integers(0, 9), st.booleans()
)
def test_epochs_have_equally_many_batches_within_the_budget(
    tmp_path_factory: pytest.TempPathFactory,
    first: float,
    second: float,
    epoch: int,
    seed: int,
    tagged: bool,
) -> None:
    mix = TrainingMix((30, 70), (first, second), (TAG if tagged else None, None))
    store = mixed(tmp_path_factory.mktemp("store"), mix, shard_pairs=50)
    epochs = EpochBatches(store, BATCH_TOKENS, seed)
    batches = list(epochs.iter_epoch(epoch))
    assert len(batches) == len(epochs)
    assert all(batch.src.numel() <= BATCH_TOKENS for batch in batches)
    assert all(batch.tgt_out.numel() <= BATCH_TOKENS for batch in batches)


def test_a_weighted_epoch_can_be_gone_on_from_anywhere(tmp_path: Path) -> None:
    mix = TrainingMix((30, 70), (2.5, 0.3), (TAG, None))
    whole = [rows(b) for b in EpochBatches(mixed(tmp_path, mix, 25), 24, seed=6).iter_epoch(3)]
    for first in range(0, len(whole), 7):
        again = EpochBatches(mixed(tmp_path, mix, 25), 24, seed=6).iter_epoch(3, first)
        assert [rows(batch) for batch in again] == whole[first:]


def test_weights_of_one_change_nothing(tmp_path: Path) -> None:
    plain = ShardedStore(corpus(tmp_path, HUNDRED, page_pairs=5).store, 99, 25)
    alike = mixed(tmp_path, TrainingMix((40, 60), (1.0, 1.0), (None, None)), 25)
    first, second = (EpochBatches(each, BATCH_TOKENS, seed=2) for each in (plain, alike))
    assert [rows(b) for b in first.iter_epoch(1)] == [rows(b) for b in second.iter_epoch(1)]


def test_tags_stand_before_the_sources_of_their_part(tmp_path: Path) -> None:
    mix = TrainingMix((33, 60, 7), (1.0,) * 3, (None, TAG, TAG + 1))
    text = corpus(tmp_path, HUNDRED, page_pairs=5).text
    store = mixed(tmp_path, mix, 25)
    for number in range(store.num_shards):
        shard = store.draw(number, 1, 0)
        for index in range(len(shard)):
            pair = int(shard.tgt[index][0]) - 4
            tag = [] if pair < 33 else [TAG] if pair < 93 else [TAG + 1]
            assert shard.src[index].tolist() == [*tag, *text.src[pair].tolist()]
            assert shard.tgt[index].tolist() == text.tgt[pair].tolist()
        lengths = store.shard_lengths(number)
        assert np.array_equal(lengths.src, shard.src.lengths)


def test_a_tag_counts_for_the_longest_source(tmp_path: Path) -> None:
    store = corpus(tmp_path, [(5, 5), (5, 5)], page_pairs=5).store
    mix = TrainingMix((1, 1), (1.0, 1.0), (TAG, None))
    assert MixedStore(store, 5, mix, 5).num_pairs == 1
