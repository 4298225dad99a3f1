"""Positions by hand-worked numbers, growth past the table, and the scale of token vectors."""

import math
from typing import Any

import pytest
import torch

from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.transformer import (
    Embedding,
    LearnedPositions,
    SinusoidalPositions,
    sinusoids,
)


def looped_sinusoid(position: int, dimension: int, d_model: int) -> float:
    """The paper's formula for one number."""
    angle = position / 10000 ** (2 * (dimension // 2) / d_model)
    return math.sin(angle) if dimension % 2 == 0 else math.cos(angle)


def test_sinusoids_by_hand() -> None:
    # d_model 4: angles pos and pos / 100; columns sin, cos, sin, cos.
    expected = torch.tensor(
        [
            [0.0, 1.0, 0.0, 1.0],
            [0.8414710, 0.5403023, 0.0099998, 0.9999500],
            [0.9092974, -0.4161468, 0.0199987, 0.9998000],
        ]
    )
    torch.testing.assert_close(sinusoids(3, 4), expected, rtol=0.0, atol=1e-7)
    # d_model 512: dimensions 256 and 257 turn at 10000^(-1/2) = 1/100, so 100 is one radian.
    torch.testing.assert_close(
        sinusoids(101, 512)[100, 256:258], torch.tensor([0.8414710, 0.5403023])
    )


def test_positions_past_the_table_follow_the_formula() -> None:
    positions = SinusoidalPositions(6)
    # The table starts with 256 rows: one short of it, its last, one past it, far past it, back.
    for start, length in [(250, 5), (250, 6), (250, 7), (3000, 2), (5, 4)]:
        expected = [
            [looped_sinusoid(position, dimension, 6) for dimension in range(6)]
            for position in range(start, start + length)
        ]
        torch.testing.assert_close(
            positions(start, length), torch.tensor(expected), rtol=0.0, atol=1e-7
        )


def test_growing_leaves_earlier_positions_as_they_were() -> None:
    positions = SinusoidalPositions(6)
    before = positions(0, 256).clone()
    positions(0, 257)
    assert torch.equal(positions(0, 256), before)


class SharedPositions(SinusoidalPositions):
    """Each time its table was looked at, another thread puts in the short one of its own making."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if name == "table":
            self._buffers["table"] = sinusoids(256, self.d_model)
        return found


@pytest.mark.parametrize(("start", "length"), [(255, 1), (256, 1), (299, 1), (0, 300)])
def test_another_thread_that_writes_the_table_is_not_in_the_way(start: int, length: int) -> None:
    positions = SharedPositions(6)
    positions._buffers["table"] = sinusoids(300, 6)
    assert torch.equal(positions(start, length), sinusoids(300, 6)[start : start + length])


def test_sinusoids_are_no_part_of_a_checkpoint() -> None:
    assert SinusoidalPositions(6).state_dict() == {}


def test_a_table_that_grew_in_inference_serves_training() -> None:
    embedding = Embedding(ModelConfig(d_model=4, num_heads=1, dropout=0.0), vocab_size=5)
    with torch.inference_mode():
        embedding(torch.zeros(1, 300, dtype=torch.int64))
    embedding(torch.zeros(1, 300, dtype=torch.int64)).sum().backward()
    gradient = embedding.tokens.weight.grad
    assert gradient is not None
    # d(sum)/d(vector 0): 300 uses, each scaled by sqrt(4).
    torch.testing.assert_close(gradient[0], torch.full((4,), 600.0))


def test_a_table_that_grows_keeps_its_dtype() -> None:
    positions = SinusoidalPositions(4).to(torch.bfloat16)
    assert positions(0, 10).dtype == torch.bfloat16
    assert positions(0, 1000).dtype == torch.bfloat16


def test_learned_positions_are_rows_of_their_table() -> None:
    positions = LearnedPositions(5, 4)
    assert torch.equal(positions(0, 5), positions.table)
    assert torch.equal(positions(2, 2), positions.table[2:4])


@pytest.mark.parametrize(("start", "length"), [(0, 6), (5, 1), (3, 3)])
def test_learned_positions_end(start: int, length: int) -> None:
    with pytest.raises(ValueError, match="6 positions, but the model learned only 5"):
        LearnedPositions(5, 4)(start, length)


def test_tokens_are_scaled_and_positions_added() -> None:
    embedding = Embedding(ModelConfig(d_model=4, num_heads=1), vocab_size=3).eval()
    with torch.no_grad():
        embedding.tokens.weight.copy_(torch.arange(12.0).view(3, 4))
    # sqrt(4) = 2 times the row of each id, plus the positions 1 and 2 worked out above.
    expected = torch.tensor(
        [
            [
                [16.0 + 0.8414710, 18.0 + 0.5403023, 20.0 + 0.0099998, 22.0 + 0.9999500],
                [0.0 + 0.9092974, 2.0 - 0.4161468, 4.0 + 0.0199987, 6.0 + 0.9998000],
            ]
        ]
    )
    torch.testing.assert_close(embedding(torch.tensor([[1, 2, 0]]))[:, 1:], expected)
    for position, token in [(1, 2), (2, 0)]:
        torch.testing.assert_close(
            embedding(torch.tensor([[token]]), position), expected[:, position - 1, None]
        )


def test_hypotheses_side_by_side_stand_at_one_position() -> None:
    embedding = Embedding(ModelConfig(d_model=8, num_heads=1), vocab_size=9).eval()
    beam = torch.tensor([[5, 7, 5], [8, 1, 2]])
    whole = embedding(beam.view(6, 1).expand(6, 4))
    torch.testing.assert_close(embedding(beam, 3), whole[:, 3].view(2, 3, 8))


def test_dropout_falls_on_the_sum_of_tokens_and_positions() -> None:
    embedding = Embedding(ModelConfig(d_model=8, num_heads=1, dropout=0.5), vocab_size=9)
    ids = torch.randint(9, (20, 30))
    whole = embedding.eval()(ids)
    dropped = embedding.train()(ids)
    zeros = dropped == 0.0
    assert 0.4 < zeros.double().mean() < 0.6
    torch.testing.assert_close(dropped[~zeros], 2.0 * whole[~zeros])


@pytest.mark.gpu
def test_a_table_grows_on_its_device() -> None:
    positions = SinusoidalPositions(6).cuda()
    grown = positions(0, 1000)
    assert grown.is_cuda
    torch.testing.assert_close(grown.cpu(), sinusoids(1000, 6))
