"""Operations of a training step's matrix products: the work that speeds are compared by."""

from collections.abc import Sequence

from transformer_cli.config.schema import ModelConfig

_FORWARD_AND_BACKWARD = 3
"""Backward makes two products of each of forward's: one for the input, one for the weights."""


def training_flops(
    config: ModelConfig, vocab: int, src_lengths: Sequence[int], tgt_lengths: Sequence[int]
) -> float:
    """Floating-point operations of the matrix products of one update; padding is never counted.

    A token costs 2 operations forward and 4 backward for each weight of the matrices it passes;
    attention's two products cost 2 * d_model forward and 4 * d_model backward each for every
    pair of positions that may attend. Embedding, normalisation, softmax, dropout, loss and
    optimizer are left out: they take time, but no work of matrix products.

    Args:
        config: sizes of the model.
        vocab: entries of the target vocabulary.
        src_lengths: source tokens of each pair, the end mark counted.
        tgt_lengths: target tokens of each pair, the end mark counted.
    """
    src_weights, tgt_weights = _weights_of_a_token(config, vocab)
    products = src_weights * sum(src_lengths) + tgt_weights * sum(tgt_lengths)
    products += 2 * config.d_model * _attended(config, src_lengths, tgt_lengths)
    return 2.0 * _FORWARD_AND_BACKWARD * products


def _weights_of_a_token(config: ModelConfig, vocab: int) -> tuple[int, int]:
    """Matrix weights that a source and a target token pass through, in all layers."""
    projection = config.d_model**2
    feed_forward = (3 if config.activation == "swiglu" else 2) * config.d_model * config.d_ff
    # The memory's keys and values are made of source tokens, by the decoder's matrices.
    src = config.num_encoder_layers * (4 * projection + feed_forward)
    src += config.num_decoder_layers * 2 * projection
    tgt = config.num_decoder_layers * (6 * projection + feed_forward)
    tgt += config.d_model * vocab
    return src, tgt


def _attended(config: ModelConfig, src_lengths: Sequence[int], tgt_lengths: Sequence[int]) -> int:
    """Pairs of a query and a key that it may attend to, in all layers."""
    within_src = sum(src * src for src in src_lengths)
    within_tgt = sum(tgt * (tgt + 1) // 2 for tgt in tgt_lengths)  # up to itself
    across = sum(src * tgt for src, tgt in zip(src_lengths, tgt_lengths, strict=True))
    encoder = config.num_encoder_layers * within_src
    return encoder + config.num_decoder_layers * (within_tgt + across)
