"""Shards: every short pair is in one of them, whatever their lengths."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from stored_corpus import (
    HUNDRED,
    PairLengths,
    corpus,
    numbers,
    sharded_store,
    some_lengths,
)

from transformer_cli.data.shards import ShardedStore

# --- shards --------------------------------------------------------------------------------------


def test_shards_are_even_samples_of_whole_pages(tmp_path: Path) -> None:
    shards = sharded_store(tmp_path, HUNDRED, 99, shard_pairs=30, page_pairs=10)
    assert (shards.num_pairs, shards.num_shards) == (100, 4)
    pages = [[page * 10 + place for place in range(10)] for page in range(10)]
    found = [numbers(shards.draw(number, 1, 0)) for number in range(4)]
    assert found[0] == pages[0] + pages[4] + pages[8]
    assert found[1] == pages[1] + pages[5] + pages[9]
    assert found[3] == pages[3] + pages[7]


def test_the_last_page_may_be_short(tmp_path: Path) -> None:
    shards = sharded_store(tmp_path, some_lengths(23), 99, 10, 5)
    assert [numbers(shards.draw(number, 1, 0)) for number in range(shards.num_shards)] == [
        [0, 1, 2, 3, 4, 15, 16, 17, 18, 19],
        [5, 6, 7, 8, 9, 20, 21, 22],
        [10, 11, 12, 13, 14],
    ]


def test_one_shard_is_the_corpus_in_its_order(tmp_path: Path) -> None:
    text, store = corpus(tmp_path, HUNDRED, page_pairs=10).both
    shards = ShardedStore(store, 99, shard_pairs=100)
    assert shards.num_shards == 1
    assert numbers(shards.draw(0, 1, 0)) == list(range(100))
    assert shards.draw(0, 1, 0).src.ids.tolist() == text.src.ids.tolist()


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=60),
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(1, 7),
)
def test_every_pair_that_is_short_enough_is_in_one_shard(
    tmp_path_factory: pytest.TempPathFactory,
    lengths: PairLengths,
    page_pairs: int,
    pages: int,
    max_length: int,
) -> None:
    directory = tmp_path_factory.mktemp("store")
    shards = sharded_store(directory, lengths, max_length, pages * page_pairs, page_pairs)
    texts = [shards.draw(number, 1, 0) for number in range(shards.num_shards)]
    assert all(len(text) <= pages * page_pairs for text in texts)
    short = [number for number, pair in enumerate(lengths) if max(pair) <= max_length]
    assert sorted(number for text in texts for number in numbers(text)) == short
    assert shards.num_pairs == len(short)
    for number, text in enumerate(texts):
        src_lengths, tgt_lengths = shards.shard_lengths(number)
        assert src_lengths.tolist() == text.src.lengths.tolist()
        assert tgt_lengths.tolist() == text.tgt.lengths.tolist()
