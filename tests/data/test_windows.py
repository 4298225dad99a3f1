"""A corpus in windows: every pair once an epoch, in batches that can be gone on from anywhere."""

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer_cli.data.batches import Batch, collate, plan_epoch
from transformer_cli.data.encoded import EncodedText, TokenStore
from transformer_cli.data.pages import pack_page
from transformer_cli.data.store import PAGE_PAIRS, EncodedStore
from transformer_cli.data.windows import EpochBatches, StoredWindows

Lengths = list[tuple[int, int]]
BATCH_TOKENS = 24


@dataclass(frozen=True)
class Corpus:
    """The same pairs in memory and on disk; pair n holds nothing but the id n + 4."""

    text: EncodedText
    store: EncodedStore

    @property
    def both(self) -> tuple[EncodedText, EncodedStore]:
        return self.text, self.store


def corpus(directory: Path, lengths: Lengths, page_pairs: int = PAGE_PAIRS) -> Corpus:
    text = EncodedText(
        *(
            TokenStore.of([number] * pair[side] for number, pair in enumerate(lengths, start=4))
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


def stored_windows(
    directory: Path, lengths: Lengths, max_length: int, window_pairs: int, page_pairs: int
) -> StoredWindows:
    store = corpus(directory, lengths, page_pairs).store
    return StoredWindows(store, max_length, BATCH_TOKENS, window_pairs)


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


HUNDRED = some_lengths(100)


# --- windows --------------------------------------------------------------------------------------


def test_windows_are_even_samples_of_whole_pages(tmp_path: Path) -> None:
    windows = stored_windows(tmp_path, HUNDRED, 99, window_pairs=30, page_pairs=10)
    assert (len(windows), windows.windows) == (100, 4)
    pages = [[page * 10 + place for place in range(10)] for page in range(10)]
    found = [numbers(windows.window(number)) for number in range(4)]
    assert found[0] == pages[0] + pages[4] + pages[8]
    assert found[1] == pages[1] + pages[5] + pages[9]
    assert found[3] == pages[3] + pages[7]


def test_the_last_page_may_be_short(tmp_path: Path) -> None:
    windows = stored_windows(tmp_path, some_lengths(23), 99, 10, 5)
    assert [numbers(windows.window(number)) for number in range(windows.windows)] == [
        [0, 1, 2, 3, 4, 15, 16, 17, 18, 19],
        [5, 6, 7, 8, 9, 20, 21, 22],
        [10, 11, 12, 13, 14],
    ]


def test_one_window_is_the_corpus_in_its_order(tmp_path: Path) -> None:
    text, store = corpus(tmp_path, HUNDRED, page_pairs=10).both
    windows = StoredWindows(store, 99, BATCH_TOKENS, window_pairs=100)
    assert windows.windows == 1
    assert numbers(windows.window(0)) == list(range(100))
    assert windows.window(0).src.ids.tolist() == text.src.ids.tolist()


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
    directory = tmp_path_factory.mktemp("store")
    windows = stored_windows(directory, lengths, max_length, pages * page_pairs, page_pairs)
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


def test_a_corpus_of_one_window_is_batched_as_if_in_memory(tmp_path: Path) -> None:
    text, store = corpus(tmp_path, HUNDRED).both
    stored = EpochBatches(StoredWindows(store, 99, BATCH_TOKENS), BATCH_TOKENS, seed=6)
    in_memory = EpochBatches(text, BATCH_TOKENS, seed=6)
    for epoch in range(3):
        plan = plan_epoch(text, BATCH_TOKENS, seed=6, epoch=epoch)
        planned = [rows(collate(text, indices)) for indices in plan]
        assert [rows(batch) for batch in stored.of_epoch(epoch)] == planned
        assert [rows(batch) for batch in in_memory.of_epoch(epoch)] == planned
        assert len(stored) == len(in_memory) == len(plan)


@pytest.mark.parametrize(
    ("count", "max_length", "window_pairs", "page_pairs", "batches", "digest"),
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
    window_pairs: int,
    page_pairs: int,
    batches: int,
    digest: str,
) -> None:
    """By the SHA-256 of what version 0.1.0 made: a run may be gone on with by a later one."""
    store = corpus(tmp_path, some_lengths(count), page_pairs).store
    epochs = EpochBatches(StoredWindows(store, max_length, 64, window_pairs), 64, seed=6)
    assert len(epochs) == batches
    found = hashlib.sha256()
    for epoch in range(2):
        for batch in epochs.of_epoch(epoch):
            found.update(repr(rows(batch)).encode())
    assert found.hexdigest() == digest


@pytest.mark.parametrize("max_length", [99, 8, 1])
@pytest.mark.parametrize("window_pairs", [10, 30, 1000])
def test_an_epoch_has_every_pair_once_and_as_many_batches_as_said(
    tmp_path: Path, window_pairs: int, max_length: int
) -> None:
    windows = stored_windows(tmp_path, HUNDRED, max_length, window_pairs, page_pairs=5)
    epochs = EpochBatches(windows, BATCH_TOKENS, seed=1)
    for epoch in range(3):
        batches = list(epochs.of_epoch(epoch))
        assert len(batches) == len(epochs)
        seen = Counter(number for batch in batches for number in pairs_of(batch))
        short = [number for number, pair in enumerate(HUNDRED) if max(pair) <= max_length]
        assert seen == Counter(short)


def test_an_epoch_can_be_gone_on_from_any_batch(tmp_path: Path) -> None:
    epochs = EpochBatches(stored_windows(tmp_path, HUNDRED, 99, 20, 5), BATCH_TOKENS, seed=1)
    whole = [rows(batch) for batch in epochs.of_epoch(2)]
    for first in range(len(whole) + 1):
        assert [rows(batch) for batch in epochs.of_epoch(2, first)] == whole[first:]


# --- counts ---------------------------------------------------------------------------------------


def test_noted_counts_are_taken_and_nothing_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = stored_windows(tmp_path, HUNDRED, 8, 20, 5)
    counted.note_counts()
    store = EncodedStore(tmp_path, 100, 5, 0, 0, "text", "print")
    with monkeypatch.context() as patch:
        patch.setattr(EncodedStore, "lengths", lambda *_: pytest.fail("lengths are read"))
        noted = StoredWindows(store, 8, BATCH_TOKENS, 20)
        assert len(EpochBatches(noted, BATCH_TOKENS, seed=1)) == sum(counted.batches)
    assert (len(noted), noted.batches) == (len(counted), counted.batches)
    # Other batches than those that were noted are counted.
    others = EpochBatches(noted, 48, seed=1)
    assert len(others) == len(list(others.of_epoch(0))) < sum(counted.batches)


@pytest.mark.parametrize(
    "other",
    [
        {"max_length": 7},
        {"batch_tokens": 23},
        {"window_pairs": 25},
        {"text_sum": "other"},
        {"tokenizer": "other"},
    ],
)
def test_counts_of_something_else_are_not_taken(tmp_path: Path, other: dict[str, Any]) -> None:
    store = corpus(tmp_path, HUNDRED, page_pairs=5).store
    settings = {"max_length": 8, "batch_tokens": 24, "window_pairs": 20}
    first = StoredWindows(store, **settings)
    first.note_counts()
    noted = (tmp_path / "batches.json").read_bytes()
    changed = settings | {key: value for key, value in other.items() if key in settings}
    names = {key: value for key, value in other.items() if key not in settings}
    second = StoredWindows(replace(store, **names), **changed)
    assert (tmp_path / "batches.json").read_bytes() == noted
    second.note_counts()
    assert (tmp_path / "batches.json").read_bytes() != noted
    epochs = EpochBatches(second, changed["batch_tokens"], seed=1)
    batches = list(epochs.of_epoch(0))
    assert len(batches) == len(epochs)
    assert sum(len(batch.src) for batch in batches) == len(second)


def test_damaged_counts_are_counted_again(tmp_path: Path) -> None:
    counted = stored_windows(tmp_path, HUNDRED, 8, 20, 5)
    counted.note_counts()
    path = tmp_path / "batches.json"
    whole = path.read_bytes()
    place = whole.index(b'"pairs": ') + 9
    for damaged in (
        whole[:-20],
        b"",
        b"[]",
        b"\xff",
        whole[:place] + b"1" + whole[place:],
        b"[" * 100_000,
    ):
        path.write_bytes(damaged)
        store = EncodedStore(tmp_path, 100, 5, 0, 0, "text", "print")
        again = StoredWindows(store, 8, BATCH_TOKENS, 20)
        assert (len(again), again.batches) == (len(counted), counted.batches)


# --- order ----------------------------------------------------------------------------------------


def test_windows_and_batches_come_in_another_order_each_epoch(tmp_path: Path) -> None:
    windows = stored_windows(tmp_path, HUNDRED, 99, 20, 5)
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
    windows = stored_windows(tmp_path, [(3, 3)] * 40, 99, 20, 20)
    batches = [pairs_of(each) for each in EpochBatches(windows, 20, seed=1).of_epoch(0)]
    halves = [
        [pair % 20 for pairs in half for pair in pairs] for half in (batches[:4], batches[4:])
    ]
    assert sorted(halves[0]) == sorted(halves[1]) == list(range(20))
    assert halves[0] != halves[1]


def test_one_window_at_a_time_is_read(tmp_path: Path) -> None:
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

    watched = Watched(stored_windows(tmp_path, HUNDRED, 99, 20, 5), [])
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
