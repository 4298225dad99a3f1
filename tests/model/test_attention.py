"""Attention against torch.nn.MultiheadAttention, and the weights that can be had on request."""

import pytest
import torch
from torch import Tensor, nn

from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.transformer import MultiHeadAttention, Transformer, record_attention

D_MODEL, HEADS = 12, 3
BATCH, QUERIES, KEYS = 2, 5, 5

# How the rows of the batch are padded at the end, and whether later keys are hidden.
MASKS = {
    "open": (None, False),
    "padded": ([5, 3], False),
    "causal": (None, True),
}


def pair() -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    """Ours and torch's, of the same random weights and biases."""
    ours = MultiHeadAttention(D_MODEL, HEADS, dropout=0.0)
    oracle = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True)
    projections = (ours.query, ours.key, ours.value)
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.normal_(std=0.4)
        oracle.in_proj_weight.copy_(torch.cat([projection.weight for projection in projections]))
        oracle.in_proj_bias.copy_(torch.cat([projection.bias for projection in projections]))
        oracle.out_proj.load_state_dict(ours.output.state_dict())
    return ours, oracle


def padding(lengths: list[int] | None) -> Tensor | None:
    """True at the keys that lie beyond a row's length."""
    if lengths is None:
        return None
    return torch.arange(KEYS) >= torch.tensor(lengths)[:, None]


def our_mask(lengths: list[int] | None) -> Tensor | None:
    padded = padding(lengths)
    return None if padded is None else ~padded[:, None, None, :]


def oracle_outcome(
    oracle: nn.MultiheadAttention, x: Tensor, memory: Tensor, which: str
) -> tuple[Tensor, Tensor]:
    """Output, and weights by head, of torch's module; True in its masks means 'hidden'."""
    lengths, causal = MASKS[which]
    later = torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(1)
    output, weights = oracle(
        x,
        memory,
        memory,
        key_padding_mask=padding(lengths),
        attn_mask=later if causal else None,
        average_attn_weights=False,
    )
    return output, weights


@pytest.mark.parametrize("which", MASKS)
def test_output_equals_torchs(which: str) -> None:
    ours, oracle = pair()
    x, memory = torch.randn(BATCH, QUERIES, D_MODEL), torch.randn(BATCH, KEYS, D_MODEL)
    lengths, causal = MASKS[which]
    expected, _ = oracle_outcome(oracle, x, memory, which)
    torch.testing.assert_close(ours(x, memory, our_mask(lengths), causal), expected)


@pytest.mark.parametrize("which", MASKS)
def test_recorded_weights_equal_torchs_by_head(which: str) -> None:
    ours, oracle = pair()
    x, memory = torch.randn(BATCH, QUERIES, D_MODEL), torch.randn(BATCH, KEYS, D_MODEL)
    lengths, causal = MASKS[which]
    fused = ours(x, memory, our_mask(lengths), causal)
    with record_attention(ours) as recorded:
        slow = ours(x, memory, our_mask(lengths), causal)
    _, expected = oracle_outcome(oracle, x, memory, which)
    (weights,) = recorded[""]
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(weights.sum(dim=3), torch.ones(BATCH, HEADS, QUERIES))
    torch.testing.assert_close(slow, fused)


def test_recorded_and_fused_paths_have_the_same_gradients() -> None:
    ours, _ = pair()
    x = torch.randn(BATCH, QUERIES, D_MODEL)
    weight = torch.randn(BATCH, QUERIES, D_MODEL)
    parameters = list(ours.parameters())
    fused = torch.autograd.grad((ours(x, x, causal=True) * weight).sum(), parameters)
    with record_attention(ours):
        slow = torch.autograd.grad((ours(x, x, causal=True) * weight).sum(), parameters)
    torch.testing.assert_close(slow, fused, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("which", MASKS)
def test_training_in_bfloat16_on_a_cpu_stays_near_float32(which: str) -> None:
    # It takes another path there.
    ours, _ = pair()
    ours.train()
    x, memory = torch.randn(BATCH, QUERIES, D_MODEL), torch.randn(BATCH, KEYS, D_MODEL)
    lengths, causal = MASKS[which]
    exact = ours(x, memory, our_mask(lengths), causal)
    with torch.autocast("cpu", torch.bfloat16):
        rough = ours(x, memory, our_mask(lengths), causal)
    assert rough.dtype == torch.bfloat16
    assert (rough - exact).norm() < 0.03 * exact.norm()


def test_a_mask_by_query_hides_keys_from_that_query_only() -> None:
    ours, _ = pair()
    x, memory = torch.randn(1, 2, D_MODEL), torch.randn(1, 3, D_MODEL)
    mask = torch.tensor([[True, True, False], [False, True, True]])[None, None]
    output = ours(x, memory, mask)
    torch.testing.assert_close(output[:, :1], ours(x[:, :1], memory[:, :2]))
    torch.testing.assert_close(output[:, 1:], ours(x[:, 1:], memory[:, 1:]))


@pytest.mark.parametrize("recorded", [False, True], ids=["fused", "recorded"])
def test_dropout_of_weights_keeps_the_expectation_in_training_only(recorded: bool) -> None:
    attention = MultiHeadAttention(D_MODEL, HEADS, dropout=0.3)
    copies = 20_000
    x = torch.randn(1, 2, D_MODEL).expand(copies, 2, D_MODEL)
    expected = attention.eval()(x[:1], x[:1])[0]
    attention.train()
    if recorded:
        with record_attention(attention):
            outputs = attention(x, x)
    else:
        outputs = attention(x, x)
    deviation = outputs.std(dim=0)
    assert deviation.min() > 0.0
    error = (outputs.mean(dim=0) - expected).abs()
    assert (error < 5.0 * deviation / copies**0.5).all()


def small_model() -> Transformer:
    config = ModelConfig(d_model=8, num_heads=2, d_ff=8, num_encoder_layers=2, num_decoder_layers=2)
    return Transformer(config, src_size=7, tgt_size=7, pad_id=3).eval()


def test_a_model_records_every_attention_by_name() -> None:
    model = small_model()
    src, tgt = torch.tensor([[4, 5, 6, 3]]), torch.tensor([[1, 4, 5]])
    fused = model(src, tgt)
    with record_attention(model) as recorded:
        slow = model(src, tgt)
        model(src, tgt)
    torch.testing.assert_close(slow, fused)
    shapes = {
        "encoder.0.self_attention": (1, 2, 4, 4),
        "encoder.1.self_attention": (1, 2, 4, 4),
        "decoder.0.self_attention": (1, 2, 3, 3),
        "decoder.0.cross_attention": (1, 2, 3, 4),
        "decoder.1.self_attention": (1, 2, 3, 3),
        "decoder.1.cross_attention": (1, 2, 3, 4),
    }
    assert {
        name: [tuple(weights.shape) for weights in calls] for name, calls in recorded.items()
    } == {name: [shape, shape] for name, shape in shapes.items()}
    # The last source position is padding: nothing looks at it.
    assert recorded["decoder.1.cross_attention"][0][..., 3].count_nonzero() == 0


def test_nothing_is_recorded_after_the_block() -> None:
    model = small_model()
    src, tgt = torch.tensor([[4, 5]]), torch.tensor([[1]])
    before = model(src, tgt)
    with record_attention(model) as recorded:
        pass
    assert torch.equal(model(src, tgt), before)
    assert not any(recorded.values())


def test_nothing_is_recorded_after_an_exception() -> None:
    model = small_model()
    src, tgt = torch.tensor([[4, 5]]), torch.tensor([[1]])
    seen: dict[str, list[Tensor]] = {}

    def fail() -> None:
        nonlocal seen
        with record_attention(model) as seen:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    model(src, tgt)
    assert len(seen) == 6
    assert not any(seen.values())
