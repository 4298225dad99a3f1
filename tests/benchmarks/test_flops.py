"""The arithmetic of a training step, against a count by hand and by torch."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.flops import training_flops
from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.transformer import build_model, record_attention


def test_a_small_model_by_hand() -> None:
    config = ModelConfig(d_model=2, num_heads=1, d_ff=3, num_encoder_layers=1, num_decoder_layers=1)
    # A source token: 4 projections of 2 x 2 and 2 matrices of 2 x 3 in the encoder layer, 2
    # projections of 2 x 2 for the decoder's keys and values: 16 + 12 + 8 = 36 weights.
    # A target token: 4 + 2 projections, 2 feed-forward matrices, 2 x 5 for the output:
    # 24 + 12 + 10 = 46 weights.
    # Pairs of 3 to 2 and 1 to 4 tokens, so 4 source and 6 target tokens: 144 + 276 = 420.
    # Attended: source 9 + 1, target 3 + 10, across 6 + 4, so 33, each in two products of
    # d_model 2: 132. Forward a product is 2 operations, backward 4: 6 * (420 + 132).
    assert training_flops(config, 5, [3, 1], [2, 4]) == 3312.0


def test_swiglu_has_a_third_matrix() -> None:
    relu, swiglu = (
        ModelConfig(activation=activation, num_encoder_layers=1, num_decoder_layers=1)
        for activation in ("relu", "swiglu")
    )
    more = training_flops(swiglu, 9, [3], [2]) - training_flops(relu, 9, [3], [2])
    assert more == 6.0 * relu.d_model * relu.d_ff * 5


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_without_padding_it_is_what_torch_counts(activation: str) -> None:
    config = ModelConfig.model_validate(
        {"d_model": 16, "num_heads": 2, "d_ff": 24, "activation": activation, "dropout": 0.0}
    )
    rows, src, tgt, vocab = 3, 7, 5, 11
    # Double precision keeps to torch's own products: torch counts none of oneDNN's. Recording keeps
    # to attention's plain ones: torch counts no fused ones on a CPU.
    model = build_model(config, vocab, vocab, pad_id=3, seed=1).double()
    with FlopCounterMode(display=False) as counter, record_attention(model):
        ids = torch.full((rows, max(src, tgt)), 4)
        model(ids[:, :src], ids[:, :tgt]).sum().backward()
    # torch counts what causal attention masks, too.
    masked = rows * (tgt * tgt - tgt * (tgt + 1) // 2)
    beyond = 12 * config.num_decoder_layers * config.d_model * masked
    expected = counter.get_total_flops() - beyond
    assert training_flops(config, vocab, [src] * rows, [tgt] * rows) == expected
