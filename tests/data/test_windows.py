"""A corpus in windows: every pair once an epoch, in batches that can be gone on from anywhere."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer_cli.data.batches import Batch, collate, plan_epoch
from transformer_cli.data.encoded import EncodedText, TokenStore
from transformer_cli.data.store import EncodedStore, StoredSide
from transformer_cli.data.windows import EpochBatches, StoredWindows

Lengths = list[tuple[int, int]]
BATCH_TOKENS = 24


@dataclass(frozen=True)
class Corpus:
    """The same pairs in memory and on disk; pair n holds nothing but the id n + 4."""

    text: EncodedText
    store: EncodedStore


def write(directory: Path, name: str, side: TokenStore) -> StoredSide:
    ids, offsets = directory / f"{name}.ids", directory / f"{name}.offsets"
    ids.write_bytes(side.ids.astype("<i4").tobytes())
    offsets.write_bytes(side.offsets.astype("<i8").tobytes())
    return StoredSide(ids, offsets, len(side), len(side.ids))


def corpus(directory: Path, lengths: Lengths) -> Corpus:
    src, tgt = (
        TokenStore.of([number] * pair[side] for number, pair in enumerate(lengths, start=4))
        for side in (0, 1)
    )
    store = EncodedStore(write(directory, "src", src), write(directory, "tgt", tgt))
    return Corpus(EncodedText(src, tgt), store)


def some_lengths(count: int) -> Lengths:
    random = np.random.default_rng(3)
    return [(int(src), int(tgt)) for src, tgt in random.integers(1, 12, (count, 2))]


def numbers(text: EncodedText) -> list[int]:
    """Which pairs of the corpus these are."""
    return [int(text.src[index][0]) - 4 for index in range(len(text))]


def rows(batch: Batch) -> tuple[list[list[int]], list[list[int]]]:
    return batch.src.tolist(), batch.tgt_out.tolist()


def pairs_of(batch: Batch) -> list[int]:
    return [int(row[0]) - 4 for row in batch.src]


@pytest.fixture
def hundred(tmp_path: Path) -> Corpus:
    return corpus(tmp_path, some_lengths(100))


# --- windows --------------------------------------------------------------------------------------


def test_windows_are_even_samples_of_whole_pages(hundred: Corpus) -> None:
    windows = StoredWindows(hundred.store, 99, window_pairs=30, page_pairs=10)
    assert (len(windows), windows.windows) == (100, 4)
    pages = [[page * 10 + place for place in range(10)] for page in range(10)]
    found = [numbers(windows.window(number)) for number in range(4)]
    assert found[0] == pages[0] + pages[4] + pages[8]
    assert found[1] == pages[1] + pages[5] + pages[9]
    assert found[3] == pages[3] + pages[7]


def test_the_last_page_may_be_short(tmp_path: Path) -> None:
    windows = StoredWindows(corpus(tmp_path, some_lengths(23)).store, 99, 10, 5)
    assert [numbers(windows.window(number)) for number in range(windows.windows)] == [
        [0, 1, 2, 3, 4, 15, 16, 17, 18, 19],
        [5, 6, 7, 8, 9, 20, 21, 22],
        [10, 11, 12, 13, 14],
    ]


def test_one_window_is_the_corpus_in_its_order(hundred: Corpus) -> None:
    windows = StoredWindows(hundred.store, 99, window_pairs=100, page_pairs=10)
    assert windows.windows == 1
    assert numbers(windows.window(0)) == list(range(100))
    assert windows.window(0).src.ids.tolist() == hundred.text.src.ids.tolist()


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=60),
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(1, 7),
)
def test_every_pair_that_is_short_enough_is_in_one_window(
    tmp_path_factory: pytest.TempPathFactory,
    lengths: Lengths,
    page_pairs: int,
    pages: int,
    max_length: int,
) -> None:
    store = corpus(tmp_path_factory.mktemp("store"), lengths).store
    windows = StoredWindows(store, max_length, pages * page_pairs, page_pairs)
    texts = [windows.window(number) for number in range(windows.windows)]
    assert all(len(text) <= pages * page_pairs for text in texts)
    short = [number for number, pair in enumerate(lengths) if max(pair) <= max_length]
    assert sorted(number for text in texts for number in numbers(text)) == short
    assert len(windows) == len(short)
    for number, text in enumerate(texts):
        src_lengths, tgt_lengths = windows.window_lengths(number)
        assert src_lengths.tolist() == text.src.lengths.tolist()
        assert tgt_lengths.tolist() == text.tgt.lengths.tolist()


# --- epochs ---------------------------------------------------------------------------------------


def test_a_corpus_of_one_window_is_batched_as_if_in_memory(hundred: Corpus) -> None:
    stored = EpochBatches(StoredWindows(hundred.store, 99), BATCH_TOKENS, seed=6)
    in_memory = EpochBatches(hundred.text, BATCH_TOKENS, seed=6)
    for epoch in range(3):
        plan = plan_epoch(hundred.text, BATCH_TOKENS, seed=6, epoch=epoch)
        planned = [rows(collate(hundred.text, indices)) for indices in plan]
        assert [rows(batch) for batch in stored.of_epoch(epoch)] == planned
        assert [rows(batch) for batch in in_memory.of_epoch(epoch)] == planned
        assert len(stored) == len(in_memory) == len(plan)


@pytest.mark.parametrize("max_length", [99, 8, 1])
@pytest.mark.parametrize("window_pairs", [10, 30, 1000])
def test_an_epoch_has_every_pair_once_and_as_many_batches_as_said(
    hundred: Corpus, window_pairs: int, max_length: int
) -> None:
    windows = StoredWindows(hundred.store, max_length, window_pairs, page_pairs=5)
    epochs = EpochBatches(windows, BATCH_TOKENS, seed=1)
    longest = np.maximum(hundred.text.src.lengths, hundred.text.tgt.lengths)
    for epoch in range(3):
        batches = list(epochs.of_epoch(epoch))
        assert len(batches) == len(epochs)
        seen = Counter(number for batch in batches for number in pairs_of(batch))
        assert seen == Counter(np.flatnonzero(longest <= max_length).tolist())


def test_an_epoch_can_be_gone_on_from_any_batch(hundred: Corpus) -> None:
    epochs = EpochBatches(StoredWindows(hundred.store, 99, 20, 5), BATCH_TOKENS, seed=1)
    whole = [rows(batch) for batch in epochs.of_epoch(2)]
    for first in range(len(whole) + 1):
        assert [rows(batch) for batch in epochs.of_epoch(2, first)] == whole[first:]


def test_windows_and_batches_come_in_another_order_each_epoch(hundred: Corpus) -> None:
    windows = StoredWindows(hundred.store, 99, 20, 5)
    window_of = {pair: number for number in range(5) for pair in numbers(windows.window(number))}

    def orders(seed: int, epoch: int) -> tuple[list[int], list[list[int]]]:
        batches = [
            pairs_of(each) for each in EpochBatches(windows, BATCH_TOKENS, seed).of_epoch(epoch)
        ]
        order = [window_of[pairs[0]] for pairs in batches]
        assert all(
            {window_of[pair] for pair in pairs} == {window_of[pairs[0]]} for pairs in batches
        )
        return list(dict.fromkeys(order)), batches

    keys = [(1, 0), (1, 1), (1, 2), (2, 0)]
    found = [orders(*key) for key in keys]
    assert found == [orders(*key) for key in keys]
    assert all(sorted(order) == list(range(5)) for order, _ in found)
    assert len({tuple(order) for order, _ in found}) > 1
    assert len({str(batches) for _, batches in found}) == 4


def test_windows_of_equal_lengths_are_mixed_differently(tmp_path: Path) -> None:
    # 40 equal pairs in two windows: only the random key of a window mixes them.
    windows = StoredWindows(corpus(tmp_path, [(3, 3)] * 40).store, 99, 20, 20)
    batches = [pairs_of(each) for each in EpochBatches(windows, 20, seed=1).of_epoch(0)]
    halves = [
        [pair % 20 for pairs in half for pair in pairs] for half in (batches[:4], batches[4:])
    ]
    assert sorted(halves[0]) == sorted(halves[1]) == list(range(20))
    assert halves[0] != halves[1]


def test_one_window_at_a_time_is_read(hundred: Corpus) -> None:
    @dataclass
    class Watched:
        inner: StoredWindows
        read: list[int]

        @property
        def windows(self) -> int:
            return self.inner.windows

        def window(self, number: int) -> EncodedText:
            self.read.append(number)
            return self.inner.window(number)

        def window_lengths(self, number: int) -> tuple[np.ndarray, np.ndarray]:
            return self.inner.window_lengths(number)

    watched = Watched(StoredWindows(hundred.store, 99, 20, 5), [])
    epochs = EpochBatches(watched, BATCH_TOKENS, seed=1)
    assert watched.read == []
    for _ in epochs.of_epoch(0):
        assert len(watched.read) == len(set(watched.read)) <= 5
    order = watched.read.copy()
    assert sorted(order) == list(range(5))
    watched.read.clear()
    # Going on from the last batch, nothing but the last window is read.
    assert len(list(epochs.of_epoch(0, len(epochs) - 1))) == 1
    assert watched.read == order[-1:]
