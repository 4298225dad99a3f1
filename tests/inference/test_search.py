"""Both searches against slow oracles: a loop without a cache, every sequence there is, scripts."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from transformer_cli.config.decoding_schema import DecodingConfig
from transformer_cli.config.schema import ModelConfig
from transformer_cli.inference.engine import Hypothesis, SearchOptions, repeats_itself
from transformer_cli.inference.search import (
    _LOGITS_AT_A_TIME,
    _beam,
    _narrow_by,
    search,
    top_k,
)
from transformer_cli.inference.translator import rank, score
from transformer_cli.model.transformer import DecoderState, Transformer

UNK, BOS, EOS, PAD = 0, 1, 2, 3
BANNED = (UNK, BOS, PAD)
GREEDY = SearchOptions(bos_id=BOS, eos_id=EOS, banned_ids=BANNED)

SRC_SIZE, TGT_SIZE = 14, 12
SRC = torch.tensor(
    [
        [5, 9, 4, 10, 13, 2],
        [7, 8, 2, PAD, PAD, PAD],
        [6, 2, PAD, PAD, PAD, PAD],
        [4, 4, 8, 12, 2, PAD],
        [2, PAD, PAD, PAD, PAD, PAD],
        [11, 5, 11, 2, PAD, PAD],
        [13, 12, 9, 6, 5, 2],
        [10, 7, 2, PAD, PAD, PAD],
    ]
)
LIMITS = torch.tensor([9, 4, 1, 12, 7, 2, 12, 10])


def beam(size: int) -> SearchOptions:
    return replace(GREEDY, decoding=DecodingConfig(beam_size=size))


def best_of(
    model: Transformer,
    src: Tensor,
    max_lengths: Tensor,
    options: SearchOptions,
    length_penalty: float = 0.0,
) -> list[Hypothesis]:
    """The best that is found for each row."""
    found = search(model, src, max_lengths, options)
    return [rank(hypotheses, length_penalty)[0] for hypotheses in found]


class CountingTransformer(Transformer):
    """Remembers how many sentences each decoding step had, and of how many hypotheses."""

    def __init__(self, *of_transformer: Any) -> None:
        super().__init__(*of_transformer)
        self.sentences: list[int] = []
        self.hypotheses: list[int] = []

    def init_state(self, src: Tensor, beam_size: int = 1) -> DecoderState:
        self.sentences, self.hypotheses = [], []
        return super().init_state(src, beam_size)

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        self.sentences.append(tokens.size(0))
        self.hypotheses.append(tokens.size(1))
        return super().step(tokens, state)


def random_model(
    end_bias: float = 0.0, tgt_size: int = TGT_SIZE, **settings: Any
) -> CountingTransformer:
    """A model that is sure of what it says, and says something else at each position.

    Args:
        end_bias: added to the end mark's logit.
        tgt_size: number of target ids.
        settings: of the model's config.
    """
    sizes: dict[str, Any] = {"d_model": 16, "num_heads": 2, "d_ff": 24}
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 2}
    config = ModelConfig(**sizes | layers | {"tying": "none"} | settings)
    model = CountingTransformer(config, SRC_SIZE, tgt_size, PAD)
    deviations = {"tokens": 0.5, "positions": 2.0, "output.weight": 0.7}
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.3)
            for part, deviation in deviations.items():
                if part in name and "attention" not in name:
                    nn.init.normal_(weight, std=deviation)
        model.output.bias[EOS] += end_bias
    return model.eval()


def without_padding(row: Tensor) -> Tensor:
    return row[row != PAD][None]


def one_by_one(
    model: Transformer,
    src: Tensor,
    limits: Tensor,
    options: SearchOptions,
    length_penalty: float = 0.0,
) -> list[Hypothesis]:
    """Each sentence searched alone, without padding."""
    return [
        hypothesis
        for row, limit in zip(src, limits, strict=True)
        for hypothesis in best_of(model, without_padding(row), limit[None], options, length_penalty)
    ]


def assert_equal(found: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> None:
    assert [each.ids for each in found] == [each.ids for each in expected]
    assert [each.log_probability for each in found] == pytest.approx(
        [each.log_probability for each in expected], abs=1e-5
    )


def assert_all_equal(
    found: Sequence[Sequence[Hypothesis]], expected: Sequence[Sequence[Hypothesis]]
) -> None:
    assert len(found) == len(expected)
    for of_row, of_expected in zip(found, expected, strict=True):
        assert_equal(of_row, of_expected)


@torch.no_grad()
def next_log_probabilities(model: Transformer, row: Tensor, written: Sequence[int]) -> Tensor:
    """What may follow ``written``, by a pass of the whole model over the whole prefix."""
    logits: Tensor = model(without_padding(row), torch.tensor([[BOS, *written]]))
    return logits[0, -1].double().log_softmax(dim=0)


def log_probability(model: Transformer, row: Tensor, written: Sequence[int]) -> float:
    """Of the tokens of ``written``, which holds the end mark if there is to be one."""
    return sum(
        next_log_probabilities(model, row, written[:position])[token].item()
        for position, token in enumerate(written)
    )


def with_end_mark(hypothesis: Hypothesis, limit: int) -> list[int]:
    """What was written: only an output as long as its limit has no end mark."""
    return hypothesis.ids if len(hypothesis.ids) == limit else [*hypothesis.ids, EOS]


def slow_greedy(model: Transformer, row: Tensor, limit: int) -> Hypothesis:
    """The most likely token again and again, without cache or batch."""
    written: list[int] = []
    total = 0.0
    while len(written) < limit:
        candidates = next_log_probabilities(model, row, written)
        candidates[list(BANNED)] = -math.inf
        best = int(candidates.argmax())
        total += candidates[best].item()
        if best == EOS:
            break
        written.append(best)
    return Hypothesis(written, total)


# --- greedy ---------------------------------------------------------------------------------------


@pytest.mark.long_cases
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_greedy_equals_a_loop_without_cache(positions: str, norm: str) -> None:
    model = random_model(positions=positions, norm=norm, max_positions=12)
    found = best_of(model, SRC, LIMITS, GREEDY)
    rows_and_limits = zip(SRC, LIMITS.tolist(), strict=True)
    assert_equal(found, [slow_greedy(model, row, limit) for row, limit in rows_and_limits])


def test_the_random_model_is_no_easy_case() -> None:
    found = best_of(random_model(), SRC, LIMITS, GREEDY)
    at_limit = [len(each.ids) == limit for each, limit in zip(found, LIMITS.tolist(), strict=True)]
    assert set(at_limit) == {True, False}
    assert len({tuple(each.ids) for each in found}) >= 6
    assert max(len(set(each.ids)) for each in found) >= 2


@pytest.mark.long
def test_greedy_over_many_tokens_equals_a_loop_without_cache() -> None:
    # So many tokens that they are ranked by groups; not all of them stand in one.
    model = random_model(tgt_size=300)
    found = best_of(model, SRC, LIMITS, GREEDY)
    rows_and_limits = zip(SRC, LIMITS.tolist(), strict=True)
    assert_equal(found, [slow_greedy(model, row, limit) for row, limit in rows_and_limits])
    assert len({token for each in found for token in each.ids}) > 5


def test_greedy_batch_equals_one_by_one() -> None:
    model = random_model()
    assert_equal(best_of(model, SRC, LIMITS, GREEDY), one_by_one(model, SRC, LIMITS, GREEDY))


def sentences_in_each_step(steps_needed: Sequence[int]) -> list[int]:
    """How many sentences take part in each step: done ones leave once they are a fifth of all."""
    taking_part, expected = len(steps_needed), []
    for steps_done in range(max(steps_needed)):
        live = sum(steps > steps_done for steps in steps_needed)
        if 5 * live <= 4 * taking_part:
            taking_part = live
        expected.append(taking_part)
    return expected


def test_finished_rows_leave_the_batch_together() -> None:
    model = random_model()
    found = best_of(model, SRC, LIMITS, GREEDY)
    lengths = [
        len(with_end_mark(each, limit)) for each, limit in zip(found, LIMITS.tolist(), strict=True)
    ]
    live = [sum(length > step for length in lengths) for step in range(max(lengths))]
    assert model.sentences == sentences_in_each_step(lengths) != live
    assert set(model.hypotheses) == {1}


def test_one_done_sentence_of_many_stays() -> None:
    model = random_model(end_bias=-1e4)
    limits = torch.tensor([2, 5, 5, 5, 5, 5, 5, 3])
    best_of(model, SRC, limits, GREEDY)
    assert model.sentences == [8, 8, 8, 6, 6]


def test_a_limit_cuts_and_changes_nothing_before_it() -> None:
    model = random_model(end_bias=-1e4)
    whole = best_of(model, SRC, torch.full_like(LIMITS, 12), GREEDY)
    assert {len(each.ids) for each in whole} == {12}
    cut = best_of(model, SRC, LIMITS, GREEDY)
    expected = [each.ids[:limit] for each, limit in zip(whole, LIMITS.tolist(), strict=True)]
    assert [each.ids for each in cut] == expected


# --- both searches --------------------------------------------------------------------------------


@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_an_end_that_is_sure_gives_an_empty_output(beam_size: int) -> None:
    model = random_model(end_bias=1e3)
    found = best_of(model, SRC, LIMITS, beam(beam_size))
    assert found == [Hypothesis([], 0.0)] * len(SRC)


@pytest.mark.long_cases
@pytest.mark.parametrize("beam_size", [1, 3])
def test_banned_ids_are_never_written(beam_size: int) -> None:
    model = random_model()
    options = replace(beam(beam_size), banned_ids=(*BANNED, 6, 7))
    with torch.no_grad():
        model.output.bias[[*options.banned_ids]] += 20.0
    found = best_of(model, SRC, LIMITS, options)
    assert any(each.ids for each in found)
    assert not {token for each in found for token in each.ids} & {*options.banned_ids, EOS}


@pytest.mark.long_cases
@pytest.mark.parametrize("beam_size", [1, 2])
def test_no_ids_need_be_banned(beam_size: int) -> None:
    model = random_model()
    with torch.no_grad():
        model.output.bias[UNK] += 1e3
    options = replace(beam(beam_size), banned_ids=())
    found = best_of(model, SRC[:1], torch.tensor([2]), options)
    assert found[0].ids == [UNK, UNK]


@pytest.mark.long_cases
@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("rows_at_a_time", [1, 5])
def test_ranking_some_rows_at_a_time_changes_nothing(
    rows_at_a_time: int, beam_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = random_model()
    options = beam(beam_size)
    expected = best_of(model, SRC, LIMITS, options)
    monkeypatch.setitem(_LOGITS_AT_A_TIME, "cpu", rows_at_a_time * TGT_SIZE)
    assert_equal(best_of(model, SRC, LIMITS, options), expected)


@pytest.mark.long_cases
@pytest.mark.parametrize("beam_size", [1, 2, 4, 7])
def test_log_probability_is_that_of_a_full_pass(beam_size: int) -> None:
    model = random_model()
    options = beam(beam_size)
    found = best_of(model, SRC, LIMITS, options, 0.6)
    expected = [
        log_probability(model, row, with_end_mark(each, limit))
        for row, each, limit in zip(SRC, found, LIMITS.tolist(), strict=True)
    ]
    assert [each.log_probability for each in found] == pytest.approx(expected, rel=1e-5, abs=1e-5)


# --- repetitions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("beam_size", [1, 3])
def test_no_sequence_is_written_twice_unless_the_source_has_one_twice(beam_size: int) -> None:
    model = random_model()
    with torch.no_grad():
        model.output.bias[EOS] = -50.0  # write to the limit
    src = torch.tensor([[5, 6, 7, 8, 9, 10, 11, 4, EOS], [5, 6, 7, 8, 5, 6, 7, 8, EOS]])
    limits = torch.tensor([60, 60])
    free = beam(beam_size)
    narrow = DecodingConfig(beam_size=beam_size, no_repeat_ngram_size=4)
    loops = [one.ids for one in best_of(model, src, limits, free)]
    found = [one.ids for one in best_of(model, src, limits, replace(free, decoding=narrow))]
    assert repeats_itself(loops[0], 4)
    assert not repeats_itself(found[0], 4)
    assert len(found[0]) == 60
    assert found[1] == loops[1]


# --- beam -----------------------------------------------------------------------------------------


def test_a_beam_of_one_is_greedy() -> None:
    model = random_model()
    with torch.inference_mode():
        narrow = _narrow_by(GREEDY, SRC, ())
        found = [best for best, *_ in _beam(model, SRC, LIMITS, GREEDY, narrow)]
    assert_equal(found, best_of(model, SRC, LIMITS, GREEDY))


@pytest.mark.long_cases
@pytest.mark.parametrize("beam_size", [2, 5, 9])
def test_beam_batch_equals_one_by_one(beam_size: int) -> None:
    model = random_model()
    options = beam(beam_size)
    found = best_of(model, SRC, LIMITS, options, 0.6)
    assert_equal(found, one_by_one(model, SRC, LIMITS, options, 0.6))


@pytest.mark.long
def test_beam_over_many_tokens_equals_one_by_one() -> None:
    # Ranked by groups with a beam of two, as long rows are, and not with one of five.
    model = random_model(tgt_size=300)
    for beam_size in (2, 5):
        options = beam(beam_size)
        found = best_of(model, SRC, LIMITS, options)
        assert_equal(found, one_by_one(model, SRC, LIMITS, options))
        expected = [
            log_probability(model, row, with_end_mark(each, limit))
            for row, each, limit in zip(SRC, found, LIMITS.tolist(), strict=True)
        ]
        assert [each.log_probability for each in found] == pytest.approx(expected, abs=1e-4)


def test_finished_sentences_leave_the_beam_together() -> None:
    model = random_model()
    options = beam(3)
    steps_needed = []
    for row, limit in zip(SRC, LIMITS, strict=True):
        best_of(model, without_padding(row), limit[None], options)
        steps_needed.append(len(model.sentences))
    assert len(set(steps_needed)) >= 4, "the case is too easy"
    best_of(model, SRC, LIMITS, options)
    assert model.sentences == sentences_in_each_step(steps_needed)
    assert model.hypotheses == [1] + [3] * (max(steps_needed) - 1)


def every_ending(model: Transformer, row: Tensor, length: int) -> dict[tuple[int, ...], float]:
    """Log-probabilities of all outputs of up to ``length`` tokens, end mark included."""
    tokens = [each for each in range(model.output.out_features) if each not in (*BANNED, EOS)]
    outputs = list(itertools.product(tokens, repeat=length))
    tgt_in = torch.tensor([[BOS, *output] for output in outputs])
    src = without_padding(row).expand(len(outputs), -1)
    with torch.no_grad():
        log_probabilities = model(src, tgt_in).double().log_softmax(dim=2).tolist()
    return {
        output[:end]: sum(steps[place][output[place]] for place in range(end)) + steps[end][EOS]
        for output, steps in zip(outputs, log_probabilities, strict=True)
        for end in range(length + 1)
    }


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 2.0])
def test_a_beam_of_everything_is_exhaustive(length_penalty: float) -> None:
    # Three tokens and the end mark may follow each other: at most 27 * 4 candidates at the fourth
    # step, and 40 outputs that end by then. A beam of 120 loses none and does not stop early.
    model = random_model(tgt_size=7)
    options = beam(120)
    found = best_of(model, SRC, torch.full_like(LIMITS, 4), options, length_penalty)
    for row, hypothesis in zip(SRC, found, strict=True):
        endings = every_ending(model, row, length=3)
        assert len(endings) == 40
        best = max(
            endings, key=lambda ids: endings[ids] / ((5 + len(ids) + 1) / 6) ** length_penalty
        )
        assert tuple(hypothesis.ids) == best
        assert hypothesis.log_probability == pytest.approx(endings[best], rel=1e-5, abs=1e-5)


@pytest.mark.long_cases
@pytest.mark.parametrize("length_penalty", [0.0, 2.0])
def test_a_beam_wider_than_the_vocabulary_goes_on_from_no_end(length_penalty: float) -> None:
    for seed in range(2):
        torch.manual_seed(seed)
        model = random_model(tgt_size=6)
        options = beam(8)
        found = best_of(model, SRC, LIMITS, options, length_penalty)
        assert not {EOS} & {token for each in found for token in each.ids}
        assert_equal(found, one_by_one(model, SRC, LIMITS, options, length_penalty))


# --- beam, by a script ----------------------------------------------------------------------------

A, B, C = 4, 5, 6
Script = Mapping[tuple[int, ...], Mapping[int, float]]
ONE_SRC = torch.tensor([[5, EOS]])


@dataclass
class WrittenState(DecoderState):
    """Knows what each hypothesis of each row has written, begin mark aside."""

    outputs: list[list[tuple[int, ...]]] = field(default_factory=list)

    def reorder(self, parents: Tensor) -> None:
        super().reorder(parents)
        self.outputs = [
            [outputs[place] for place in places]
            for outputs, places in zip(self.outputs, parents.tolist(), strict=True)
        ]

    def select(self, rows: Tensor) -> None:
        super().select(rows)
        self.outputs = [self.outputs[row] for row in rows.tolist()]


class ScriptedTransformer(Transformer):
    """Looks up the probabilities of what comes next; what is not in the script ends at once."""

    def __init__(self, script: Script) -> None:
        super().__init__(ModelConfig(d_model=2, num_heads=1, d_ff=1), SRC_SIZE, TGT_SIZE, PAD)
        self.script = script
        self.steps = 0

    def init_state(self, src: Tensor, beam_size: int = 1) -> WrittenState:
        outputs: list[list[tuple[int, ...]]] = [[()] for _ in src]
        return WrittenState((src != PAD)[:, None, None, :], [], beam_size, outputs=outputs)

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        assert isinstance(state, WrittenState)
        if self.steps:
            state.outputs = [
                [(*output, token) for output, token in zip(*row, strict=True)]
                for row in zip(state.outputs, tokens.tolist(), strict=True)
            ]
        self.steps += 1
        logits = torch.full((*tokens.shape, TGT_SIZE), -math.inf)
        for row, outputs in enumerate(state.outputs):
            for place, output in enumerate(outputs):
                for token, probability in self.script.get(output, {EOS: 1.0}).items():
                    logits[row, place, token] = math.log(probability)
        return logits

    def logits(self, features: Tensor) -> Tensor:
        return features


def search_script(
    script: Script, beam_size: int, limit: int = 9, length_penalty: float = 0.0
) -> tuple[list[int], float, int]:
    """The best output's ids, its probability to 6 places, and the number of steps it took."""
    model = ScriptedTransformer(script).eval()
    options = beam(beam_size)
    (found,) = best_of(model, ONE_SRC, torch.tensor([limit]), options, length_penalty)
    return found.ids, round(math.exp(found.log_probability), 6), model.steps


def test_a_beam_sees_past_a_first_token_that_misleads() -> None:
    script = {(): {A: 0.6, B: 0.4}, (A,): {EOS: 0.52, C: 0.48}, (B,): {EOS: 0.9, C: 0.1}}
    assert search_script(script, beam_size=1) == ([A], 0.312, 2)
    assert search_script(script, beam_size=2) == ([B], 0.36, 2)


@pytest.mark.parametrize(
    ("length_penalty", "ids", "probability"),
    [(0.0, [], 0.4), (0.46, [], 0.4), (0.47, [A, B], 0.351), (0.6, [A, B], 0.351)],
)
def test_length_penalty_by_hand(length_penalty: float, ids: list[int], probability: float) -> None:
    # With the end mark, the outputs have lengths 1 and 3: they are equal where
    # ln 0.4 / (6/6)^alpha = ln 0.351 / (8/6)^alpha, which is at alpha = 0.4634.
    script = {
        (): {A: 0.6, EOS: 0.4},
        (A,): {B: 0.9, C: 0.08, EOS: 0.02},
        (A, B): {EOS: 0.65, B: 0.35},
    }
    found = search_script(script, beam_size=2, length_penalty=length_penalty)
    assert found == (ids, probability, 3)


def test_search_stops_when_as_many_have_ended_as_the_beam_is_wide() -> None:
    # [A, B] would win by far with this penalty, but both places are taken after two steps.
    script = {(): {A: 0.6, EOS: 0.4}, (A,): {B: 0.9, EOS: 0.1}}
    found = search_script(script, beam_size=2, length_penalty=5.0)
    assert found == ([], 0.4, 2)


def test_an_end_outside_the_beam_is_none() -> None:
    script = {(): {A: 1.0}, (A,): {B: 0.5, C: 0.3, EOS: 0.2}}
    assert search_script(script, beam_size=2, limit=2) == ([A, B], 0.5, 2)
    assert search_script(script, beam_size=3, limit=2) == ([A], 0.2, 2)


def test_what_ended_is_preferred_to_what_was_cut() -> None:
    script = {(): {A: 0.9, EOS: 0.1}, (A,): {A: 1.0}, (A, A): {A: 1.0}}
    assert search_script(script, beam_size=1, limit=3) == ([A, A, A], 0.9, 3)
    assert search_script(script, beam_size=2, limit=3) == ([], 0.1, 3)


@pytest.mark.parametrize("beam_size", [1, 2, 8])
def test_impossible_continuations_do_no_harm(beam_size: int) -> None:
    script = {(): {A: 1.0}, (A,): {B: 1.0}}
    ids, probability, _ = search_script(script, beam_size, limit=6)
    assert (ids, probability) == ([A, B], 1.0)


@pytest.mark.parametrize("beam_size", [2, TGT_SIZE - 1, TGT_SIZE, 20])
def test_what_ended_does_not_go_on(beam_size: int) -> None:
    # However likely more would be after the end mark, and however wide the beam.
    script = {(): {EOS: 0.6, A: 0.4}, (EOS,): {B: 1.0}}
    assert search_script(script, beam_size, length_penalty=5.0)[:2] == ([A], 0.4)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_an_output_may_end_at_its_limit(beam_size: int) -> None:
    script = {(): {A: 0.9, B: 0.1}, (A,): {B: 0.8, C: 0.2}}
    assert search_script(script, beam_size, limit=3)[:2] == ([A, B], 0.72)
    cut = {**script, (B,): {C: 1.0}}
    assert search_script(cut, beam_size, limit=2)[:2] == ([A, B], 0.72)


# --- ranking --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3, 10])
@pytest.mark.parametrize("width", [12, 63, 64, 65, 129, 700, 8000])
def test_the_best_of_a_row_are_those_that_torch_finds(width: int, count: int) -> None:
    rows = 20
    x = torch.randperm(rows * width).view(rows, width).float()
    x[0, -1], x[1, 0] = x.max() + 1, x.max() + 2  # the best at either end
    x[2, torch.randperm(width)[: width - count]] = -math.inf  # no more than are asked for
    assert_top(x, count)


def test_the_best_of_one_is_itself() -> None:
    assert_top(torch.tensor([[3.0], [-math.inf]]), count=1)


def assert_top(x: Tensor, count: int) -> None:
    values, columns = top_k(x, count)
    expected = x.topk(count, dim=1)
    assert torch.equal(values, expected.values)
    assert torch.equal(columns, expected.indices)


@pytest.mark.parametrize("count", [1, 3, 10])
@pytest.mark.parametrize("width", [12, 65, 129, 700, 8000])
def test_ties_are_told_apart(width: int, count: int) -> None:
    x = torch.randint(3, (20, width)).float()
    x[0] = -math.inf
    x[1] = -math.inf
    x[1, -1] = 0.0
    x[2, ::2] = -math.inf
    values, columns = top_k(x, count)
    assert torch.equal(values, x.topk(count, dim=1).values)
    assert torch.equal(x.gather(1, columns), values)
    assert all(len(set(row)) == count for row in columns.tolist())


# --- all hypotheses -------------------------------------------------------------------------------


def test_all_hypotheses_are_as_likely_as_they_say() -> None:
    model = random_model()
    options = beam(4)
    found = search(model, SRC, LIMITS, options)
    assert max(map(len, found)) == 4
    for row, limit, hypotheses in zip(SRC, LIMITS.tolist(), found, strict=True):
        scores = [score(each, 1.0) for each in rank(hypotheses, 1.0)]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(each.ids) for each in hypotheses}) == len(hypotheses) <= 4
        for each in hypotheses:
            expected = log_probability(model, row, with_end_mark(each, limit))
            assert each.log_probability == pytest.approx(expected, abs=1e-4)
