"""conftest.py turns shape annotations into checks: wrong shapes and types are refused."""

import pytest
import torch
from jaxtyping import TypeCheckError
from torch import nn

from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.transformer import LayerCache, MultiHeadAttention, Transformer
from transformer_cli.training.loss import label_smoothed_loss

pytest.importorskip("beartype")


def test_two_widths_in_one_call_are_refused() -> None:
    attention = MultiHeadAttention(8, 2, dropout=0.0)
    with pytest.raises(TypeCheckError):
        attention(torch.zeros(2, 3, 8), torch.zeros(3, 3, 8))


def test_float_ids_are_refused() -> None:
    model = Transformer(ModelConfig(d_model=8, num_heads=2), src_size=5, tgt_size=5, pad_id=3)
    with pytest.raises(TypeCheckError):
        model(torch.zeros(1, 2), torch.zeros(1, 2, dtype=torch.int64))


def test_fields_of_a_dataclass_are_checked() -> None:
    with pytest.raises(TypeCheckError):
        LayerCache(
            memory_keys=torch.zeros(2, 2, 3, 4),
            memory_values=torch.zeros(2, 2, 5, 4),
            keys=torch.zeros(2, 2, 16, 1, 4),
            values=torch.zeros(2, 2, 16, 1, 4),
        )


def test_tokens_without_a_beam_are_refused() -> None:
    model = Transformer(ModelConfig(d_model=8, num_heads=2), src_size=5, tgt_size=5, pad_id=3)
    ids = torch.tensor([[4, 2]])
    state = model.init_state(ids)
    model.step(ids[:, :1], state)
    with pytest.raises(TypeCheckError):
        model.step(ids[:, 1], state)


def test_parents_of_another_beam_are_refused() -> None:
    model = Transformer(ModelConfig(d_model=8, num_heads=2), src_size=5, tgt_size=5, pad_id=3)
    state = model.init_state(torch.tensor([[4, 2]]), beam_size=3)
    with pytest.raises(TypeCheckError):
        state.reorder(torch.tensor([0, 1, 2]))


def test_a_loss_of_mismatched_targets_is_refused() -> None:
    with pytest.raises(TypeCheckError):
        label_smoothed_loss(
            torch.zeros(2, 3, 5), nn.Linear(5, 7), torch.zeros(2, 4, dtype=torch.int64), 3, 0.1
        )
