"""Static search finds what search finds: on padded buffers, again and again, replayed or not."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jaxtyping
import pytest
import torch
from graph_tape import capture_on_tape
from hypothesis import given, settings, strategies as st
from synchronisations import watch_operations
from torch import Tensor

from inference.test_search import (
    EOS,
    GREEDY,
    LIMITS,
    PAD,
    PREFIXES,
    SRC,
    assert_all_equal,
    padded,
    random_model,
)
from transformer_cli.inference.bucketed_search import choose_bucket, make_static_search
from transformer_cli.inference.hypotheses import SearchOptions
from transformer_cli.inference.search import NOT_FORCED, search
from transformer_cli.inference.static_greedy import StaticGreedySearch
from transformer_cli.inference.static_search import StaticSearch
from transformer_cli.inference.torch_loading import load_torch_translator
from transformer_cli.model import linear
from transformer_cli.model.attention import MultiHeadAttention
from transformer_cli.model.device import autocast
from transformer_cli.model.graphs import GraphPool
from transformer_cli.model.linear import pack_weights
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.directory import RunDirectory

FIXTURES = Path(__file__).parents[1] / "fixtures"
CPU = torch.device("cpu")
FORCED = LIMITS.clamp(min=4)  # limits that PREFIXES fit into


@pytest.fixture(autouse=True)
def _unchecked_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checking all shapes takes ten times as long as the searches."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def beam(size: int, **changes: Any) -> SearchOptions:
    return replace(GREEDY, beam_size=size, length_penalty=0.6, **changes)


def make(
    model: Transformer,
    src: Tensor,
    limits: Tensor,
    options: SearchOptions,
    prefixes: Tensor | None = None,
) -> StaticSearch:
    bucket = choose_bucket(model, src, limits, options, prefixes is not None)
    return make_static_search(model, bucket)


def assert_finds_the_same(
    model: Transformer,
    src: Tensor,
    limits: Tensor,
    options: SearchOptions,
    prefixes: Tensor | None = None,
) -> None:
    expected = search(model, src, limits, options, prefixes)
    found = make(model, src, limits, options, prefixes).run(src, limits, prefixes)
    assert_all_equal(found, expected)


# --- what search finds ----------------------------------------------------------------------------


@pytest.mark.parametrize("beam_size", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "form",
    [
        {},
        {"norm": "post", "activation": "gelu"},
        {"positions": "learned", "max_positions": 12},
        {"tying": "output", "activation": "swiglu"},
        {"num_decoder_layers": 1, "num_heads": 4},
    ],
    ids=str,
)
def test_whatever_the_model_and_the_beam(form: dict[str, Any], beam_size: int) -> None:
    model = random_model(**form)
    assert_finds_the_same(model, SRC, LIMITS, beam(beam_size))
    assert_finds_the_same(model, SRC, FORCED, beam(beam_size), padded(PREFIXES))


@pytest.mark.parametrize("beam_size", [1, 4])
def test_all_weights_tied(beam_size: int) -> None:
    model = random_model(tgt_size=14, tying="all")
    assert_finds_the_same(model, SRC, LIMITS, beam(beam_size))


@pytest.mark.parametrize("beam_size", [1, 2, 5])
@pytest.mark.parametrize("end_bias", [1e3, 3.0, -1e4])
def test_ends_at_once_early_and_never(end_bias: float, beam_size: int) -> None:
    model = random_model(end_bias=end_bias)
    assert_finds_the_same(model, SRC, LIMITS, beam(beam_size))
    assert_finds_the_same(model, SRC, torch.full_like(LIMITS, 20), beam(beam_size))
    assert_finds_the_same(model, SRC[:1], torch.tensor([1]), beam(beam_size))


@pytest.mark.parametrize("banned_ids", [(), (0, 1, 3, 6, 7)])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_banned_tokens(beam_size: int, banned_ids: tuple[int, ...]) -> None:
    options = beam(beam_size, banned_ids=banned_ids)
    model = random_model()
    assert_finds_the_same(model, SRC, LIMITS, options)
    # A prefix may have banned ones, be longer than what follows, or force nothing.
    starts = padded([[6], [7, 6], [], [0], [], [], [6, 6, 6, 6], [1]])
    assert_finds_the_same(model, SRC, FORCED, options, starts)
    assert_finds_the_same(model, SRC, LIMITS, options, torch.full((len(SRC), 3), NOT_FORCED))


@pytest.mark.parametrize("beam_size", [1, 2, 5, 8, 20])
@pytest.mark.parametrize("tgt_size", [5, 6, 7, 300])
def test_fewer_tokens_than_the_beam_has_places_and_many_more(tgt_size: int, beam_size: int) -> None:
    for seed in range(3):
        torch.manual_seed(seed)
        model = random_model(tgt_size=tgt_size)
        assert_finds_the_same(model, SRC, LIMITS, beam(beam_size))
        assert_finds_the_same(model, SRC, FORCED, beam(beam_size), padded([[4], *[[]] * 7]))


def test_the_source_is_as_long_as_learned_positions_go() -> None:
    model = random_model(positions="learned", max_positions=6)
    assert SRC.size(1) == 6
    for beam_size in (1, 3):
        assert_finds_the_same(model, SRC, LIMITS.clamp(max=6), beam(beam_size))


def test_positions_beyond_the_table_of_sinusoids() -> None:
    model = random_model(end_bias=-1e4)
    src, limits = torch.randint(4, 14, (2, 270)), torch.tensor([300, 3])
    ((found,), _) = make(model, src, limits, GREEDY).run(src, limits, None)
    ((expected,), _) = search(model, src, limits, GREEDY)
    assert found.ids == expected.ids
    assert found.log_probability == pytest.approx(expected.log_probability, rel=1e-6)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_shapes_are_as_annotated(beam_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", False)
    assert_finds_the_same(random_model(), SRC, FORCED, beam(beam_size), padded(PREFIXES))


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("run", ["copy-run"])
def test_trained_models(run: str, beam_size: int) -> None:
    translator = load_torch_translator(RunDirectory(FIXTURES / run), "best", CPU, torch.float32)
    model = translator.engine.model
    sources = torch.randint(4, model.tgt_size, (20, 7))
    sources[:, -1] = EOS
    limits = torch.randint(1, 9, (20,))
    assert_finds_the_same(model, sources, limits, beam(beam_size))


@settings(max_examples=120, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), beam_size=st.integers(1, 5))
def test_random_models_sources_limits_and_prefixes(seed: int, beam_size: int) -> None:
    torch.manual_seed(seed)
    rows, length, longest = (int(torch.randint(1, most, ())) for most in (6, 9, 12))
    tgt_size = int(torch.randint(5, 20, ()))
    form = {"d_model": 8, "d_ff": 8, "num_decoder_layers": 1}
    model = random_model(float(torch.randn(()) * 2.0), tgt_size, **form)
    src = torch.randint(4, 14, (rows, length))
    for row, words in zip(src, torch.randint(0, length, (rows,)), strict=True):
        row[words], row[words + 1 :] = EOS, PAD
    limits = torch.randint(1, longest + 1, (rows,))
    starts = torch.randint(0, tgt_size, (rows, longest))
    ends = torch.minimum(limits, torch.randint(0, longest + 1, (rows,)))
    nothing_forced = (torch.arange(longest) >= ends[:, None]) | (starts == EOS).cummax(1).values
    starts[nothing_forced] = NOT_FORCED
    assert_finds_the_same(model, src, limits, beam(beam_size), starts if seed % 2 else None)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_in_bfloat16_caches_are_short(beam_size: int) -> None:
    model = random_model()
    with autocast(CPU, torch.bfloat16), pack_weights(model):
        expected = search(model, SRC, LIMITS, beam(beam_size))
        searching = make(model, SRC, LIMITS, beam(beam_size))
        found = searching.run(SRC, LIMITS, None)
    in_float32 = make(model, SRC, LIMITS, beam(beam_size))
    assert in_float32.nbytes == 2 * searching.nbytes
    # Sums over padded caches round otherwise, so that a few outputs may be others.
    same = [left[0].ids == right[0].ids for left, right in zip(found, expected, strict=True)]
    assert sum(same) >= 6


# --- one bucket, many batches ---------------------------------------------------------------------


@pytest.mark.parametrize("beam_size", [1, 3])
def test_padding_changes_nothing(beam_size: int) -> None:
    model, starts = random_model(), padded(PREFIXES)
    small = make(model, SRC, FORCED, beam(beam_size), starts)
    large = replace(small.bucket, rows=24, src_length=32, capacity=64)
    assert_all_equal(
        make_static_search(model, large).run(SRC, FORCED, starts), small.run(SRC, FORCED, starts)
    )


def test_rows_of_padding_are_finite() -> None:
    # A row that may attend to nothing would be NaN.
    searching = make(random_model(), SRC[:5], LIMITS[:5], GREEDY)
    assert isinstance(searching, StaticGreedySearch)
    searching.run(SRC[:5], LIMITS[:5], None)
    assert searching._log_probs.size(1) == 8
    assert searching._log_probs.isfinite().all()


@pytest.mark.parametrize("beam_size", [1, 3])
def test_nothing_is_left_of_earlier_batches(beam_size: int) -> None:
    model, starts = random_model(), padded(PREFIXES)
    searching = make(model, SRC, FORCED, beam(beam_size), starts)
    searching.run(SRC.flip(0), FORCED.flip(0), starts)
    with torch.no_grad():
        model.src_embedding.tokens.weight *= float("nan")
    searching.run(SRC, FORCED, starts)  # NaN would stay in what is masked
    torch.manual_seed(1)
    model.load_state_dict(random_model().state_dict())
    for rows in (slice(0, 8), slice(3, 5), slice(2, 3), slice(0, 8)):
        given = SRC[rows], FORCED[rows]
        expected = search(model, *given, beam(beam_size), starts[rows])
        assert_all_equal(searching.run(*given, starts[rows]), expected)


def test_changed_weights_are_seen() -> None:
    model = random_model()
    searching = make(model, SRC, LIMITS, GREEDY)
    before = searching.run(SRC, LIMITS, None)
    model.load_state_dict(random_model().state_dict())
    after = searching.run(SRC, LIMITS, None)
    assert_all_equal(after, search(model, SRC, LIMITS, GREEDY))
    assert [first.ids for first, *_ in after] != [first.ids for first, *_ in before]


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_replayed_graph_sees_all_that_changes(
    beam_size: int, precision: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a GPU, packed weights are plain tensors that stay where they are.
    monkeypatch.setattr(linear, "_can_use_onednn", lambda x, dtype: False)
    monkeypatch.setattr(GraphPool, "capture", capture_on_tape)
    model, twin, starts = random_model(), random_model(), padded(PREFIXES)
    with autocast(CPU, precision):
        graphed = make(model, SRC, FORCED, beam(beam_size), starts)
        plain = make_static_search(twin, graphed.bucket)
    for turn in range(5):
        twin.load_state_dict(random_model().state_dict())
        model.load_state_dict(twin.state_dict())
        if turn == 3:
            model.encode(torch.full((1, 600), 5))  # the table of sinusoids is replaced
        rows = torch.randperm(len(SRC))[: 8 - turn]
        forced = starts[rows].roll(turn, 0)
        limits = FORCED[rows] + turn
        with autocast(CPU, precision), pack_weights(model), pack_weights(twin):
            if turn == 1:
                graphed.capture(GraphPool(CPU))
                monkeypatch.setattr(model, "step", None)  # from here on, only graphs can run
            found = graphed.run(SRC[rows], limits, forced)
            assert found == plain.run(SRC[rows], limits, forced)


# --- what a GPU is asked for ----------------------------------------------------------------------


# About as many as a GPU launches for two decoder layers: a product, a normalisation and fused
# attention are one each; sorting is a few.
@pytest.mark.parametrize(
    ("beam_size", "has_prefixes", "most_launches"),
    [(1, False, 54), (1, True, 62), (5, False, 71), (5, True, 80)],
)
def test_no_step_waits_for_the_device_and_each_has_few_launches(
    beam_size: int, has_prefixes: bool, most_launches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "_can_use_onednn", lambda x, dtype: False)
    monkeypatch.setattr(MultiHeadAttention, "_use_unfused", lambda self, queries: False)
    model = random_model()
    starts = padded(PREFIXES) if has_prefixes else None
    searching = make(model, SRC, FORCED, beam(beam_size), starts)
    with torch.inference_mode(), pack_weights(model):
        with watch_operations() as starting:
            searching.start()
        assert starting.synchronisations == starting.unplaced == []
        for _ in range(3):
            with watch_operations() as stepping:
                searching.step()
            assert stepping.synchronisations == stepping.unplaced == []
            assert stepping.launches <= most_launches, stepping.operations


def test_the_device_is_read_every_eighth_step() -> None:
    model = random_model(end_bias=-1e4)
    searching = make(model, SRC, torch.tensor([20] * 8), GREEDY)
    with watch_operations() as watched:
        searching.run(SRC, torch.tensor([20] * 8), None)
    reads = [each for each in watched.synchronisations if each.startswith("_local_scalar_dense")]
    assert len(reads) == 2
