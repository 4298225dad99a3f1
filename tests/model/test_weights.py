"""Which weights are shared, how many there are, and what they are before training."""

import math
from typing import Any, Literal

import pytest
import torch
from torch import nn

from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.transformer import (
    Transformer,
    build_model,
    build_shapes,
    count_parameters,
    weights_of,
)

Tying = Literal["none", "output", "all"]


def tiny_config(**settings: Any) -> ModelConfig:
    sizes = {"d_model": 4, "num_heads": 2, "d_ff": 6}
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    return ModelConfig(**sizes | layers | settings)


def tiny(src_size: int = 9, tgt_size: int = 9, **settings: Any) -> Transformer:
    return Transformer(tiny_config(**settings), src_size, tgt_size, pad_id=3)


@pytest.mark.parametrize(
    ("tying", "output_shared", "source_shared"),
    [("none", False, False), ("output", True, False), ("all", True, True)],
)
def test_tying_shares_storage(tying: Tying, output_shared: bool, source_shared: bool) -> None:
    model = tiny(tying=tying)
    target = model.tgt_embedding.tokens.weight
    assert (model.output.weight is target) == output_shared
    assert (model.src_embedding.tokens.weight is target) == source_shared
    assert (model.output.weight.data_ptr() == target.data_ptr()) == output_shared
    source = model.src_embedding.tokens.weight
    assert (source.data_ptr() == target.data_ptr()) == source_shared


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("norm_kind", ["layernorm", "rmsnorm"])
def test_shapes_take_no_memory(positions: str, norm_kind: str) -> None:
    config = tiny_config(positions=positions, norm_kind=norm_kind, norm="pre", tying="all")
    generator = torch.get_rng_state()
    shapes = weights_of(build_shapes(config, 9, 9, 3))
    assert torch.equal(torch.get_rng_state(), generator)
    weights = weights_of(Transformer(config, 9, 9, 3))
    assert {name: weight.shape for name, weight in shapes.items()} == {
        name: weight.shape for name, weight in weights.items()
    }
    assert {weight.device.type for weight in shapes.values()} == {"meta"}


def test_a_shared_weight_gathers_the_gradients_of_its_uses() -> None:
    tied, untied = tiny(tying="all").eval(), tiny(tying="none").eval()
    untied.load_state_dict(tied.state_dict())
    src, tgt = torch.tensor([[7, 8]]), torch.tensor([[1, 4]])
    uses = [
        untied.src_embedding.tokens.weight,
        untied.tgt_embedding.tokens.weight,
        untied.output.weight,
    ]
    apart = torch.autograd.grad(untied(src, tgt).exp().sum(), uses)
    shared = tied.tgt_embedding.tokens.weight
    (together,) = torch.autograd.grad(tied(src, tgt).exp().sum(), shared)
    assert all(gradient.count_nonzero() for gradient in apart)
    torch.testing.assert_close(together, sum(apart), rtol=1e-4, atol=1e-5)


# By hand, for d_model 4, d_ff 6, one layer a stack, source 7 and target 9 tokens (tying all: 9, 9).
# Attention: 4 projections of 4 x 4 + 4 = 80.  Feed-forward: 4 x 6 + 6 + 6 x 4 + 4 = 58.  Norm: 8.
# Encoder layer: 80 + 58 + 2 x 8 = 154.  Decoder layer: 2 x 80 + 58 + 3 x 8 = 242.
# Final norms (pre-norm only): 16.  Embeddings: 28 + 36.  Output: 36 + 9.
@pytest.mark.parametrize(
    ("src_size", "settings", "count"),
    [
        (7, {"tying": "none"}, 154 + 242 + 16 + 28 + 36 + 45),  # 521
        (7, {"tying": "output"}, 154 + 242 + 16 + 28 + 36 + 9),  # 485
        (9, {"tying": "all"}, 154 + 242 + 16 + 36 + 9),  # 457
        (7, {"tying": "output", "norm": "post"}, 485 - 16),
        # A gate for each of two layers: 4 x 6 + 6 = 30.
        (7, {"tying": "output", "activation": "swiglu"}, 485 + 2 * 30),
        # A table of 5 positions a side: 5 x 4 = 20.
        (7, {"tying": "output", "positions": "learned", "max_positions": 5}, 485 + 2 * 20),
    ],
    ids=str,
)
def test_number_of_parameters(src_size: int, settings: dict[str, Any], count: int) -> None:
    assert count_parameters(tiny(src_size, **settings)) == count


@pytest.mark.parametrize("tying", ["none", "output", "all"])
def test_embeddings_start_with_the_deviation_of_tied_ones(tying: Tying) -> None:
    model = tiny(3000, 3000, d_model=64, tying=tying)
    for embedding in (model.src_embedding, model.tgt_embedding):
        weight = embedding.tokens.weight
        # 192,000 draws of N(0, 1/8): the deviation is known to 0.16 %, the mean to 0.0003.
        assert weight.std().item() == pytest.approx(64**-0.5, rel=0.01)
        assert weight.mean().item() == pytest.approx(0.0, abs=0.0015)


def test_learned_positions_start_with_the_same_deviation() -> None:
    model = tiny(d_model=64, positions="learned", max_positions=3000)
    assert model.src_embedding.positions.table.std().item() == pytest.approx(64**-0.5, rel=0.01)


def test_all_else_starts_by_xavier_with_zero_biases() -> None:
    model = tiny(200, 300, d_model=64, d_ff=96, activation="swiglu", tying="none")
    linears = [module for module in model.modules() if isinstance(module, nn.Linear)]
    # Attention 4 + 2 x 4, two feed-forwards of 3, the output.
    assert len(linears) == 12 + 6 + 1
    for linear in linears:
        bound = math.sqrt(6.0 / (linear.in_features + linear.out_features))
        assert 0.99 * bound < linear.weight.abs().max().item() <= bound
        # A uniform distribution's deviation is its bound by sqrt(3).
        assert linear.weight.std().item() == pytest.approx(bound / math.sqrt(3.0), rel=0.05)
        assert linear.bias.count_nonzero() == 0
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            assert (module.weight == 1.0).all()
            assert (module.bias == 0.0).all()


def test_no_two_layers_start_alike() -> None:
    model = tiny(num_encoder_layers=2, num_decoder_layers=2)
    for stack in (model.encoder, model.decoder):
        first, second = (layer.get_parameter("self_attention.query.weight") for layer in stack)
        assert not torch.equal(first, second)


@pytest.mark.parametrize("tying", ["none", "output", "all"])
def test_the_seed_alone_decides_the_weights(tying: Tying) -> None:
    config = ModelConfig(d_model=8, num_heads=2, tying=tying, positions="learned")

    def weights(seed: int) -> dict[str, torch.Tensor]:
        return build_model(config, 9, 9, pad_id=3, seed=seed).state_dict()

    first = weights(5)
    torch.rand(17)
    again, other = weights(5), weights(6)
    assert all(torch.equal(first[name], again[name]) for name in first)
    drawn = [name for name in first if first[name].dim() == 2]
    assert not any(torch.equal(first[name], other[name]) for name in drawn)
