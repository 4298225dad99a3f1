"""Token by token, with cached keys and values, the model says what it says at once."""

from typing import Any

import pytest
import torch
from torch import Tensor

from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.transformer import DecoderState, Transformer

PAD = 3
SRC = torch.tensor(
    [[5, 9, 4, 10, 2], [7, 8, 2, PAD, PAD], [6, 2, PAD, PAD, PAD], [4, 4, 8, 2, PAD]]
)
TGT = torch.tensor([[1, 8, 4, 9, 2, 7], [1, 5, 6, 5, 5, 4], [1, 6, 7, 2, 9, 9], [1, 4, 4, 6, 9, 5]])
LONG = 40  # positions: caches have grown twice by then, from 16 to 32 to 64


def random_model(**settings: Any) -> Transformer:
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 24, "num_encoder_layers": 1}
    form = {"num_decoder_layers": 2, "max_positions": TGT.size(1)}
    model = Transformer(ModelConfig(**sizes | form | settings), 11, 12, PAD)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model.eval()


def next_logits(model: Transformer, tokens: Tensor, state: DecoderState) -> Tensor:
    """One step of one hypothesis a row."""
    return model.logits(model.step(tokens[:, None], state))[:, 0]


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_steps_equal_decode(norm: str, positions: str) -> None:
    model = random_model(norm=norm, positions=positions)
    at_once = model(SRC, TGT)
    state = model.init_state(SRC)
    for position in range(TGT.size(1)):
        assert_close(next_logits(model, TGT[:, position], state), at_once[:, position])


def test_logits_of_features_are_what_the_model_gives() -> None:
    model = random_model()
    hidden_states = model.hidden_states(SRC, TGT)
    assert_close(model.logits(hidden_states), model(SRC, TGT))
    state = model.init_state(SRC)
    assert_close(model.step(TGT[:, :1], state), hidden_states[:, :1])


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_steps_that_outgrow_their_caches_equal_decode(positions: str) -> None:
    model = random_model(positions=positions, max_positions=LONG)
    tgt = torch.randint(4, 12, (len(SRC), LONG))
    at_once = model(SRC, tgt)
    state = model.init_state(SRC)
    for position in range(LONG):
        assert_close(next_logits(model, tgt[:, position], state), at_once[:, position])


def test_start_leaves_nothing_in_the_model() -> None:
    model = random_model()
    first, second = model.init_state(SRC), model.init_state(SRC)
    for position in range(3):
        next_logits(model, TGT[:, position], first)
    torch.testing.assert_close(
        next_logits(model, TGT[:, 0], second), next_logits(model, TGT[:, 0], model.init_state(SRC))
    )


# --- rows that are kept ---------------------------------------------------------------------------


@pytest.mark.long_cases
@pytest.mark.parametrize("steps_before", [0, 1, 3])
@pytest.mark.parametrize("rows", [[3, 2, 1, 0], [2, 0, 2, 2, 1, 0], [1], [0, 1, 2, 3]], ids=str)
def test_kept_rows_go_on_as_themselves(rows: list[int], steps_before: int) -> None:
    model = random_model()
    state = model.init_state(SRC)
    for position in range(steps_before):
        next_logits(model, TGT[:, position], state)
    state.select(torch.tensor(rows))
    # Each of the new rows keeps its source and its past, and goes on in its own way.
    tgt = TGT[rows].clone()
    tgt[:, steps_before:] = torch.randint(4, 12, (len(rows), TGT.size(1) - steps_before))
    expected = model(SRC[rows], tgt)
    for position in range(steps_before, TGT.size(1)):
        assert_close(next_logits(model, tgt[:, position], state), expected[:, position])


def test_keeping_twice_follows_both_orders() -> None:
    model = random_model()
    state = model.init_state(SRC)
    next_logits(model, TGT[:, 0], state)
    state.select(torch.tensor([3, 1, 0]))
    next_logits(model, TGT[[3, 1, 0], 1], state)
    state.select(torch.tensor([2, 0]))
    logits = next_logits(model, TGT[[0, 3], 2], state)
    assert_close(logits, model(SRC, TGT)[[0, 3], 2])


# --- hypotheses that go on from each other --------------------------------------------------------


class Histories:
    """Hypotheses as a whole pass sees them: every one with all of its own past.

    Args:
        model: what says how they may go on.
        src: a source a row.
        beam_size: hypotheses a row.
    """

    def __init__(self, model: Transformer, src: Tensor, beam_size: int) -> None:
        self.model = model
        self.src = src
        self.written = torch.randint(4, 12, (len(src), beam_size, 1))

    def write(self) -> None:
        tokens = torch.randint(4, 12, (*self.written.shape[:2], 1))
        self.written = torch.cat((self.written, tokens), dim=2)

    def reorder(self, parents: Tensor) -> None:
        rows = torch.arange(len(parents))[:, None]
        self.written = self.written[rows, parents]

    def select(self, rows: Tensor) -> None:
        self.src, self.written = self.src[rows], self.written[rows]

    def random_parents(self, hypotheses: int | None = None) -> Tensor:
        batch, parents, _ = self.written.shape
        return torch.randint(parents, (batch, hypotheses or parents))

    def hidden_states(self) -> Tensor:
        """What a step should give: the whole pass's result at the last position."""
        batch, beam_size, _ = self.written.shape
        src = self.src.repeat_interleave(beam_size, dim=0)
        at_once = self.model.hidden_states(src, self.written.flatten(0, 1))
        return at_once[:, -1].view(batch, beam_size, -1)


# More than 16 hypotheses are attended to by another path.
@pytest.mark.long
@pytest.mark.parametrize(("beam_size", "steps"), [(1, 20), (3, LONG), (17, 20)])
@torch.no_grad()
def test_a_hypothesis_that_goes_on_from_another_has_its_past(beam_size: int, steps: int) -> None:
    model = random_model()
    histories = Histories(model, SRC, beam_size)
    state = model.init_state(SRC, beam_size)
    for _ in range(steps):
        hidden_states = model.step(histories.written[:, :, -1], state)
        assert_close(hidden_states, histories.hidden_states())
        assert_close(model.logits(hidden_states), model.logits(histories.hidden_states()))
        parents = histories.random_parents()
        state.reorder(parents)
        histories.reorder(parents)
        histories.write()


@torch.no_grad()
def test_there_may_be_fewer_hypotheses_than_places() -> None:
    model = random_model()
    histories = Histories(model, SRC, beam_size=1)
    state = model.init_state(SRC, beam_size=4)
    for hypotheses in (2, 3, 4, 2, 1, 4, *[3] * 12, 4, 1, 4):
        hidden_states = model.step(histories.written[:, :, -1], state)
        assert_close(hidden_states, histories.hidden_states())
        parents = histories.random_parents(hypotheses)
        state.reorder(parents)
        histories.reorder(parents)
        histories.write()


# Kept before, where and after the caches grow.
@pytest.mark.long
@pytest.mark.parametrize("steps_before", [1, 2, 15, 16, 17, 32])
@pytest.mark.parametrize("rows", [[2, 0], [3, 1, 1, 0, 2]], ids=str)
@torch.no_grad()
def test_rows_kept_after_a_change_of_places_go_on(rows: list[int], steps_before: int) -> None:
    model = random_model()
    histories = Histories(model, SRC, beam_size=3)
    state = model.init_state(SRC, beam_size=3)
    for position in range(steps_before + 4):
        hidden_states = model.step(histories.written[:, :, -1], state)
        if position >= steps_before:
            assert_close(hidden_states, histories.hidden_states())
        parents = histories.random_parents()
        state.reorder(parents)
        histories.reorder(parents)
        if position == steps_before - 1:
            state.select(torch.tensor(rows))
            histories.select(torch.tensor(rows))
        histories.write()


@torch.no_grad()
def test_places_and_rows_may_change_in_either_order() -> None:
    model = random_model()
    parents, rows = torch.tensor([[2, 0, 0]] * len(SRC)), torch.tensor([3, 0])
    hidden_states = []
    for keep_first in (True, False):
        state = model.init_state(SRC, beam_size=3)
        for position in range(2):
            model.step(TGT[:, position : position + 3], state)
        if keep_first:
            state.select(rows)
            state.reorder(parents[rows])
        else:
            state.reorder(parents)
            state.select(rows)
        hidden_states.append(model.step(TGT[rows, 3:], state))
    assert_close(*hidden_states)


@torch.no_grad()
def test_hypotheses_of_a_row_do_not_see_each_other() -> None:
    model = random_model()
    changed = TGT[:, :3].clone()
    changed[:, 1] = (changed[:, 1] + 1) % 12
    states = [model.init_state(SRC, beam_size=3) for _ in range(2)]
    before, after = (
        [model.step(tokens, state) for _ in range(4)][-1]
        for tokens, state in zip((TGT[:, :3], changed), states, strict=True)
    )
    assert_close(after[:, [0, 2]], before[:, [0, 2]])
    assert not torch.allclose(after[:, 1], before[:, 1], atol=1e-2)


@torch.no_grad()
def test_places_changed_before_the_first_step_change_nothing() -> None:
    model = random_model()
    state, untouched = model.init_state(SRC, beam_size=3), model.init_state(SRC, beam_size=3)
    state.reorder(torch.tensor([[2, 2, 1]] * len(SRC)))
    assert_close(model.step(TGT[:, :3], state), model.step(TGT[:, :3], untouched))


def test_steps_past_learned_positions_say_so() -> None:
    model = random_model(positions="learned")
    state = model.init_state(SRC)
    for position in range(TGT.size(1)):
        next_logits(model, TGT[:, position], state)
    with pytest.raises(ValueError, match="7 positions, but the model learned only 6"):
        next_logits(model, TGT[:, 0], state)
