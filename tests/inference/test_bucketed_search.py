"""Buckets: which one a batch is padded to, when graphs are captured, and what is freed."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from inference.test_search import (
    GREEDY,
    LIMITS,
    PREFIXES,
    SRC,
    assert_all_equal,
    padded,
    random_model,
)
from transformer_cli.data.token_arrays import cut_by_tokens
from transformer_cli.inference import bucketed_search, torch_engine
from transformer_cli.inference.bucketed_search import (
    BucketedSearch,
    choose_bucket,
    make_static_search,
)
from transformer_cli.inference.engine import ignore, never
from transformer_cli.inference.hypotheses import Hypothesis, SearchOptions
from transformer_cli.inference.search import search
from transformer_cli.inference.static_search import Bucket, StaticSearch
from transformer_cli.inference.torch_engine import TorchEngine
from transformer_cli.model.graphs import GraphPool
from transformer_cli.model.transformer import Transformer

SOURCES = [row[row != 3].tolist() for row in SRC]


MODEL = random_model()


def bucket_of(rows: int, src_length: int, limit: int, model: Transformer = MODEL) -> Bucket:
    src, limits = torch.full((rows, src_length), 5), torch.full((rows,), limit)
    return choose_bucket(model, src, limits, GREEDY, has_prefixes=False)


# --- which bucket ---------------------------------------------------------------------------------


def test_batches_fit_into_their_buckets_and_little_is_wasted() -> None:
    sizes = set()
    for rows in range(1, 2000):
        bucket = bucket_of(rows, 1, 1)
        assert rows <= bucket.rows < max(2 * rows, 2)
        if rows > 16:
            assert bucket.rows < rows + max(8, rows / 8)
        assert bucket_of(bucket.rows, 1, 1) == bucket
        sizes.add(bucket.rows)
    assert len(sizes) < 60
    assert [bucket_of(1, length, 1).src_length for length in (1, 8, 9, 40)] == [8, 8, 16, 40]
    assert [bucket_of(1, 1, limit).capacity for limit in (1, 16, 17, 48)] == [16, 16, 32, 48]


def test_batches_sorted_by_length_share_buckets() -> None:
    lengths = np.random.default_rng(1).poisson(13, 10_000) + 2
    order = np.argsort(-lengths, kind="stable")
    batches = list(cut_by_tokens(order, lengths, 4096))
    buckets = [
        bucket_of(len(each), int(lengths[each].max()), 2 * int(lengths[each].max()) + 8)
        for each in batches
    ]
    padded_rows = sum(each.rows for each in buckets)
    assert padded_rows < 1.06 * len(lengths)
    assert len(set(buckets)) < 0.7 * len(batches)


def test_buckets_end_where_learned_positions_do() -> None:
    model = random_model(positions="learned", max_positions=20)
    bucket = bucket_of(2, 19, 19, model)
    assert (bucket.src_length, bucket.capacity) == (20, 20)


def test_other_options_are_another_bucket() -> None:
    model = random_model()
    options = [GREEDY, replace(GREEDY, beam_size=2), replace(GREEDY, banned_ids=(0,))]
    buckets = {
        choose_bucket(model, SRC, LIMITS, each, has_prefixes)
        for each in options
        for has_prefixes in (False, True)
    }
    assert len(buckets) == 6


# --- what is held ---------------------------------------------------------------------------------


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens to buckets, in order: made, captured, run."""
    happened: list[str] = []
    run = StaticSearch.run

    def make(model: Transformer, bucket: Bucket) -> StaticSearch:
        happened.append(f"make {bucket.rows}")
        return make_static_search(model, bucket)

    def capture(self: StaticSearch, pool: GraphPool) -> None:
        happened.append(f"capture {self.bucket.rows}")
        self._graphs = self.start, self.step

    def run_and_tell(self: StaticSearch, *given: Tensor) -> list[list[Hypothesis]]:
        happened.append(f"run {self.bucket.rows}")
        return run(self, *given)

    monkeypatch.setattr(bucketed_search, "make_static_search", make)
    monkeypatch.setattr(StaticSearch, "capture", capture)
    monkeypatch.setattr(StaticSearch, "run", run_and_tell)
    return happened


def test_a_bucket_is_captured_when_it_is_seen_again(events: list[str]) -> None:
    model, searching = random_model(), BucketedSearch()
    for rows in (2, 1, 2, 2):
        found = searching(model, SRC[:rows], LIMITS[:rows], GREEDY)
        assert_all_equal(found, search(model, SRC[:rows], LIMITS[:rows], GREEDY))
    assert events == ["make 2", "run 2", "make 1", "run 1", "capture 2", "run 2", "run 2"]


@pytest.mark.parametrize("limit", ["_MOST_BUCKETS", "_most_bytes"])
def test_the_bucket_used_least_recently_is_freed(
    limit: str, events: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, searching = random_model(), BucketedSearch()
    of_one_row = make_static_search(model, bucket_of(1, 6, 12)).nbytes
    most = {"_MOST_BUCKETS": 2, "_most_bytes": lambda device: 5 * of_one_row}[limit]
    monkeypatch.setattr(bucketed_search, limit, most)
    for rows in (1, 4, 1, 2, 1, 4):  # of 1 + 4 rows there is room, not of 1 + 4 + 2
        searching(model, SRC[:rows], torch.full((rows,), 12), GREEDY)
    assert [each for each in events if each.startswith("make")] == [
        "make 1",
        "make 4",
        "make 2",
        "make 4",
    ]
    assert len(searching._searches) == 2


def test_a_bucket_beyond_all_bounds_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucketed_search, "_most_bytes", lambda device: 0)
    model, searching = random_model(), BucketedSearch()
    for _ in range(2):
        found = searching(model, SRC, LIMITS, GREEDY)
        assert_all_equal(found, search(model, SRC, LIMITS, GREEDY))
    assert len(searching._searches) == 1


def test_after_an_error_nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    model, searching = random_model(), BucketedSearch()
    for rows in (1, 2):
        searching(model, SRC[:rows], LIMITS[:rows], GREEDY)
    with monkeypatch.context() as broken:
        broken.setattr(model, "step", None)
        with pytest.raises(TypeError):
            searching(model, SRC[:1], LIMITS[:1], GREEDY)
    assert searching._searches == {}
    found = searching(model, SRC, LIMITS, GREEDY)
    assert_all_equal(found, search(model, SRC, LIMITS, GREEDY))


# --- the engine -----------------------------------------------------------------------------------


def engine_search(
    engine: TorchEngine, options: SearchOptions, prefixes: list[list[int]] | None = None
) -> list[list[Hypothesis]]:
    starts = prefixes or [[] for _ in SOURCES]
    return engine.search(
        [*SOURCES, []], [*starts, []], [*LIMITS.tolist(), 5], options, 12, ignore, never
    )


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("prefixes", [None, [each[:1] for each in PREFIXES]])
def test_an_engine_on_a_cuda_device_searches_in_buckets(
    prefixes: list[list[int]] | None,
    beam_size: int,
    events: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = replace(GREEDY, beam_size=beam_size)
    engine = TorchEngine(random_model(), torch.float32)
    expected = engine_search(engine, options, prefixes)
    assert events == []
    with monkeypatch.context() as on_gpu:
        on_gpu.setattr(TorchEngine, "device", torch.device("cuda"))
        on_gpu.setattr(torch_engine, "autocast", lambda device, precision: torch.no_grad())
        for _ in range(3):
            found = engine_search(engine, options, prefixes)
            assert_all_equal(found, expected)
        assert {each.split()[0] for each in events} == {"make", "capture", "run"}
        events.clear()
        without_graphs = replace(engine, use_graphs=False)
        assert engine_search(without_graphs, options, prefixes) == expected
    assert events == []


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_batches_that_do_not_fit_into_memory_are_halved(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = TorchEngine(random_model(), torch.float32)
    expected = engine_search(engine, GREEDY)
    rows: list[int] = []
    encode = Transformer.encode

    def encode_one(self: Transformer, src: Tensor) -> tuple[Tensor, Tensor]:
        rows.append(len(src))
        if len(src) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")
        return encode(self, src)

    monkeypatch.setattr(Transformer, "encode", encode_one)
    monkeypatch.setattr(TorchEngine, "device", torch.device(device))
    monkeypatch.setattr(torch_engine, "autocast", lambda device, precision: torch.no_grad())
    found = engine_search(engine, GREEDY)
    assert_all_equal(found, expected)
    assert max(rows) > 1
    assert rows.count(1) == len(SOURCES)


def test_prefixes_longer_than_the_limit_do_no_harm() -> None:
    model, starts = random_model(), padded([[6] * 20, *[[]] * 7])
    found = BucketedSearch()(model, SRC, LIMITS, GREEDY, starts)
    expected = search(model, SRC, LIMITS, GREEDY, starts)
    assert_all_equal(found, expected)
