"""Token by token, with cached keys and values, the model says what it says at once."""

from typing import Any

import pytest
import torch

from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.transformer import Transformer

PAD = 3
SRC = torch.tensor(
    [[5, 9, 4, 10, 2], [7, 8, 2, PAD, PAD], [6, 2, PAD, PAD, PAD], [4, 4, 8, 2, PAD]]
)
TGT = torch.tensor([[1, 8, 4, 9, 2, 7], [1, 5, 6, 5, 5, 4], [1, 6, 7, 2, 9, 9], [1, 4, 4, 6, 9, 5]])


def random_model(**settings: Any) -> Transformer:
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 24, "num_encoder_layers": 1}
    form = {"num_decoder_layers": 2, "max_positions": TGT.size(1)}
    model = Transformer(ModelConfig(**sizes | form | settings), 11, 12, PAD)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model.eval()


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_steps_equal_decode(norm: str, positions: str) -> None:
    model = random_model(norm=norm, positions=positions)
    at_once = model(SRC, TGT)
    state = model.start(SRC)
    for position in range(TGT.size(1)):
        logits = model.step(TGT[:, position], state)
        torch.testing.assert_close(logits, at_once[:, position], rtol=1e-5, atol=1e-5)


def test_start_leaves_nothing_in_the_model() -> None:
    model = random_model()
    first, second = model.start(SRC), model.start(SRC)
    for position in range(3):
        model.step(TGT[:, position], first)
    torch.testing.assert_close(
        model.step(TGT[:, 0], second), model.step(TGT[:, 0], model.start(SRC))
    )


@pytest.mark.parametrize("steps_before", [0, 1, 3])
@pytest.mark.parametrize("rows", [[3, 2, 1, 0], [2, 0, 2, 2, 1, 0], [1], [0, 1, 2, 3]], ids=str)
def test_selected_rows_go_on_as_themselves(rows: list[int], steps_before: int) -> None:
    model = random_model()
    state = model.start(SRC)
    for position in range(steps_before):
        model.step(TGT[:, position], state)
    state.select(torch.tensor(rows))
    # Each of the new rows keeps its source and its past, and goes on in its own way.
    tgt = TGT[rows].clone()
    tgt[:, steps_before:] = torch.randint(4, 12, (len(rows), TGT.size(1) - steps_before))
    expected = model(SRC[rows], tgt)
    for position in range(steps_before, TGT.size(1)):
        logits = model.step(tgt[:, position], state)
        torch.testing.assert_close(logits, expected[:, position], rtol=1e-5, atol=1e-5)


def test_selecting_twice_follows_both_orders() -> None:
    model = random_model()
    state = model.start(SRC)
    model.step(TGT[:, 0], state)
    state.select(torch.tensor([3, 1, 0]))
    model.step(TGT[[3, 1, 0], 1], state)
    state.select(torch.tensor([2, 0]))
    logits = model.step(TGT[[0, 3], 2], state)
    torch.testing.assert_close(logits, model(SRC, TGT)[[0, 3], 2], rtol=1e-5, atol=1e-5)


def test_steps_past_learned_positions_say_so() -> None:
    model = random_model(positions="learned")
    state = model.start(SRC)
    for position in range(TGT.size(1)):
        model.step(TGT[:, position], state)
    with pytest.raises(ValueError, match="7 positions, but learned positions end at 6"):
        model.step(TGT[:, 0], state)
