"""The textbook's model is the same as ours, written otherwise: one loss, one set of gradients."""

import torch
from torch import nn

from benchmarks.textbook import Layer, Transformer
from benchmarks.textbook_train import collate, smoothed_targets
from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.transformer import (
    DecoderLayer,
    EncoderLayer,
    Transformer as Ours,
    build_model,
)
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID
from transformer_cli.training.loss import label_smoothed_loss

CONFIG = ModelConfig(
    d_model=16, num_heads=2, d_ff=24, num_encoder_layers=2, num_decoder_layers=2, tying="all"
)
VOCAB = 11


def test_loss_and_gradients_are_ours() -> None:
    ours = build_model(CONFIG, VOCAB, VOCAB, PAD_ID, seed=1).eval()
    textbook = Transformer(CONFIG, VOCAB).eval()
    copy_weights(ours, textbook)
    pairs = [([4, 5, 6, EOS_ID], [7, 8, EOS_ID]), ([9, EOS_ID], [10, 9, 8, 7, EOS_ID])]
    src, tgt = collate([(torch.tensor(s), torch.tensor([BOS_ID, *t])) for s, t in pairs])
    tgt_in, tgt_out = tgt[:, :-1], tgt[:, 1:]

    hidden_states = ours.hidden_states(src, tgt_in)
    expected = label_smoothed_loss(hidden_states, ours.output, tgt_out, PAD_ID, 0.1).loss
    loss = nn.KLDivLoss(reduction="sum")(
        textbook(src, tgt_in).flatten(0, 1), smoothed_targets(tgt_out, VOCAB, 0.1)
    )
    torch.testing.assert_close(loss, expected)
    for each in (expected, loss):
        each.backward()
    torch.testing.assert_close(textbook.embedding.weight.grad, ours.output.weight.grad)


@torch.no_grad()
def copy_weights(ours: Ours, textbook: Transformer) -> None:
    textbook.embedding.load_state_dict(ours.tgt_embedding.tokens.state_dict())
    for own, other in (
        *zip(ours.encoder, textbook.encoder, strict=True),
        *zip(ours.decoder, textbook.decoder, strict=True),
    ):
        assert isinstance(own, EncoderLayer | DecoderLayer)
        assert isinstance(other, Layer)
        other.self_attention.load_state_dict(own.self_attention.state_dict())
        if isinstance(own, DecoderLayer):
            assert other.cross_attention is not None
            other.cross_attention.load_state_dict(own.cross_attention.state_dict())
        other.feed_forward[0].load_state_dict(own.feed_forward.inner.state_dict())
        other.feed_forward[3].load_state_dict(own.feed_forward.outer.state_dict())
