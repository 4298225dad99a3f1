"""The whole model against torch.nn's layers, and what must not change its logits."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.transformer import DecoderLayer, EncoderLayer, Transformer

PAD = 3
SRC_SIZE, TGT_SIZE = 17, 19

SRC = torch.tensor([[5, 9, 4, 16, 2], [7, 8, 2, PAD, PAD], [11, 2, PAD, PAD, PAD]])
TGT = torch.tensor([[1, 18, 4, 9], [1, 5, PAD, PAD], [1, 6, 7, PAD]])


def random_model(**settings: Any) -> Transformer:
    """A model in evaluation whose every weight is random: norms and biases too."""
    sizes = {
        "d_model": 16,
        "num_heads": 4,
        "d_ff": 24,
        "num_encoder_layers": 2,
        "num_decoder_layers": 3,
        "dropout": 0.3,
        "attention_dropout": 0.3,
        "activation_dropout": 0.3,
    }
    model = Transformer(ModelConfig(**sizes | settings), SRC_SIZE, TGT_SIZE, PAD)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model.eval()


# --- against torch.nn -----------------------------------------------------------------------------


def copy_attention(oracle: nn.MultiheadAttention, ours: nn.Module) -> None:
    projections = [ours.get_submodule(name) for name in ("query", "key", "value")]
    for kind in ("weight", "bias"):
        stacked = torch.cat([projection.get_parameter(kind) for projection in projections])
        oracle.get_parameter(f"in_proj_{kind}").copy_(stacked)
    oracle.out_proj.load_state_dict(ours.get_submodule("output").state_dict())


def copy_layer(oracle: nn.Module, ours: EncoderLayer | DecoderLayer) -> None:
    """torch's names on the left, ours on the right."""
    attentions = {"self_attn": "self_attention"}
    others = {
        "linear1": "feed_forward.inner",
        "linear2": "feed_forward.outer",
        "norm1": "around_self_attention.norm",
        "norm2": "around_feed_forward.norm",
    }
    if isinstance(ours, DecoderLayer):
        attentions["multihead_attn"] = "cross_attention"
        others["norm2"] = "around_cross_attention.norm"
        others["norm3"] = "around_feed_forward.norm"
    for theirs, name in attentions.items():
        attention = oracle.get_submodule(theirs)
        assert isinstance(attention, nn.MultiheadAttention)
        copy_attention(attention, ours.get_submodule(name))
    for theirs, name in others.items():
        oracle.get_submodule(theirs).load_state_dict(ours.get_submodule(name).state_dict())


def torch_transformer(model: Transformer, norm: str, activation: str) -> nn.Transformer:
    """torch's stacks with the model's weights; post-norm ends them without another norm."""
    first = model.encoder[0]
    assert isinstance(first, EncoderLayer)
    d_model, d_ff = first.feed_forward.inner.in_features, first.feed_forward.inner.out_features
    form: dict[str, Any] = {
        "d_model": d_model,
        "nhead": first.self_attention.num_heads,
        "dim_feedforward": d_ff,
        "dropout": 0.0,
        "activation": activation,
        "batch_first": True,
        "norm_first": norm == "pre",
    }
    oracle = nn.Transformer(
        **form,
        custom_encoder=nn.TransformerEncoder(
            nn.TransformerEncoderLayer(**form),
            len(model.encoder),
            norm=nn.LayerNorm(d_model) if norm == "pre" else None,
            enable_nested_tensor=False,
        ),
        custom_decoder=nn.TransformerDecoder(
            nn.TransformerDecoderLayer(**form),
            len(model.decoder),
            norm=nn.LayerNorm(d_model) if norm == "pre" else None,
        ),
    )
    with torch.no_grad():
        for stack in ("encoder", "decoder"):
            layers = oracle.get_submodule(f"{stack}.layers").children()
            for theirs, ours in zip(layers, model.get_submodule(stack).children(), strict=True):
                assert isinstance(ours, EncoderLayer | DecoderLayer)
                copy_layer(theirs, ours)
            if norm == "pre":
                final = model.get_submodule(f"{stack}_norm")
                oracle.get_submodule(f"{stack}.norm").load_state_dict(final.state_dict())
    return oracle


def looped_embedding(ids: Tensor, vectors: Tensor) -> Tensor:
    """Token vectors times sqrt(d_model) plus sinusoids, one number at a time."""
    d_model = vectors.size(1)
    embedded = torch.zeros(*ids.shape, d_model)
    for row, position in [(r, p) for r in range(ids.size(0)) for p in range(ids.size(1))]:
        for i in range(d_model // 2):
            angle = torch.tensor(position / 10000 ** (2 * i / d_model), dtype=torch.float64)
            embedded[row, position, 2 * i] = angle.sin()
            embedded[row, position, 2 * i + 1] = angle.cos()
        embedded[row, position] += vectors[ids[row, position]].detach() * d_model**0.5
    return embedded


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_logits_equal_torchs(norm: str, activation: str) -> None:
    model = random_model(norm=norm, activation=activation)
    oracle = torch_transformer(model, norm, activation)
    later = torch.ones(TGT.size(1), TGT.size(1), dtype=torch.bool).triu(1)
    decoded = oracle(
        looped_embedding(SRC, model.src_embedding.tokens.weight),
        looped_embedding(TGT, model.tgt_embedding.tokens.weight),
        tgt_mask=later,
        src_key_padding_mask=SRC == PAD,
        tgt_key_padding_mask=TGT == PAD,
        memory_key_padding_mask=SRC == PAD,
    )
    expected = decoded @ model.output.weight.T + model.output.bias
    real = TGT != PAD
    torch.testing.assert_close(model(SRC, TGT)[real], expected[real], rtol=1e-5, atol=1e-5)


# --- what changes nothing -------------------------------------------------------------------------

FORMS = [
    {"norm": "pre", "activation": "swiglu"},
    {"norm": "post", "positions": "learned"},
]


def widened(ids: Tensor, more: int) -> Tensor:
    return torch.cat((ids, ids.new_full((ids.size(0), more), PAD)), dim=1)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_more_padding_changes_nothing(form: dict[str, Any]) -> None:
    # In float64, so that the order of sums, which the width may change, stays out of sight.
    model = random_model(**form).double()
    real = TGT != PAD
    logits = model(SRC, TGT)[real]
    wide_src, wide_tgt = widened(SRC, 3), widened(TGT, 2)
    for wider in (model(wide_src, TGT), model(SRC, wide_tgt), model(wide_src, wide_tgt)):
        kept = wider[:, : TGT.size(1)][real]
        torch.testing.assert_close(kept, logits, rtol=0.0, atol=1e-12)


def test_what_the_padding_vector_holds_changes_nothing() -> None:
    model = random_model(tying="none")
    real = TGT != PAD
    logits = model(SRC, TGT)[real]
    with torch.no_grad():
        model.src_embedding.tokens.weight[PAD] = 50.0
        model.tgt_embedding.tokens.weight[PAD] = -50.0
    assert torch.equal(model(SRC, TGT)[real], logits)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("position", [1, 2, 3])
def test_a_later_target_token_changes_no_earlier_logits(
    form: dict[str, Any], position: int
) -> None:
    model = random_model(**form)
    changed = TGT.clone()
    changed[:, position] = 12
    before, after = model(SRC, TGT), model(SRC, changed)
    assert torch.equal(after[:, :position], before[:, :position])
    assert not torch.equal(after[:, position], before[:, position])


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_another_row_changes_nothing(form: dict[str, Any]) -> None:
    model = random_model(**form)
    src, tgt = SRC.clone(), TGT.clone()
    src[1], tgt[1] = 13, 14
    before, after = model(SRC, TGT), model(src, tgt)
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert not torch.equal(after[1], before[1])


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_batch_equals_its_rows_one_by_one(form: dict[str, Any]) -> None:
    model = random_model(**form)
    logits = model(SRC, TGT)
    for row, (src, tgt) in enumerate(zip(SRC, TGT, strict=True)):
        real_src, real_tgt = src[src != PAD][None], tgt[tgt != PAD][None]
        alone = model(real_src, real_tgt)[0]
        torch.testing.assert_close(alone, logits[row, : len(alone)], rtol=1e-5, atol=1e-5)


def test_every_source_token_counts() -> None:
    model = random_model()
    logits = model(SRC, TGT)
    for row, position in (SRC != PAD).nonzero().tolist():
        changed = SRC.clone()
        changed[row, position] = 14
        assert (model(changed, TGT)[row, 0] != logits[row, 0]).any()


def test_training_drops_and_evaluation_does_not() -> None:
    model = random_model()
    assert torch.equal(model(SRC, TGT), model(SRC, TGT))
    model.train()
    assert not torch.equal(model(SRC, TGT), model(SRC, TGT))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_bfloat16_autocast_is_close_to_float32(device: str) -> None:
    model = random_model().to(device)
    src, tgt = SRC.to(device), TGT.to(device)
    exact = model(src, tgt)
    with torch.autocast(device, dtype=torch.bfloat16):
        rough = model(src, tgt)
    assert rough.isfinite().all()
    # bfloat16 has 8 bits: a few roundings of 2^-8 in a row, against the spread of the logits.
    error = (rough.float() - exact).square().mean().sqrt() / exact.std()
    assert 0.0 < error < 0.03
