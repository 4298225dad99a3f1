"""The attention weights of a model while it translates a line."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from transformer_cli.base.errors import InputError
from transformer_cli.evaluation.scoring import TorchTranslator
from transformer_cli.model.linear import autocast
from transformer_cli.model.transformer import record_attention
from transformer_cli.text.protocol import BOS_ID, EOS_ID


@dataclass(frozen=True)
class AttentionMaps:
    """The attention weights of one line and its translation, in float32 on the CPU.

    In ``decoder`` and ``cross``, row i is the step that wrote ``tgt_tokens[i]``. The weights in
    each row sum to 1, apart from rounding.

    Attributes:
        src_tokens: the source tokens in readable form; the last one is EOS.
        tgt_tokens: the target tokens, likewise.
        encoder: self-attention of the source.
        decoder: self-attention of the target: column j is the input of step j, which is
            ``tgt_tokens[j - 1]`` or, for j = 0, BOS.
        cross: attention of the target to the source.
    """

    src_tokens: list[str]
    tgt_tokens: list[str]
    encoder: Float[Tensor, "layer head src src"]
    decoder: Float[Tensor, "layer head tgt tgt"]
    cross: Float[Tensor, "layer head tgt src"]


@torch.inference_mode()
def compute_attention_maps(translator: TorchTranslator, line: str) -> AttentionMaps:
    """Translate a line; return the attention weights of one pass over it and its translation.

    A line without words is encoded as EOS alone.

    Raises:
        InputError: the line is too long to translate without splitting it.
    """
    tokenizers = translator.tokenizers
    encoded = translator.encode_line(line)
    source = [number for piece in encoded.pieces for number in piece[:-1]]
    if len(encoded.pieces) > 1:
        raise InputError(
            f"the line has {len(source):,} tokens, but at most {translator.longest_source:,} fit "
            "into one pass; give a shorter part of it"
        )
    longest = translator.longest_source  # leaves a position for EOS
    shorter = translator.with_search(max_length=min(longest, translator.max_length or longest))
    ((best, *_),) = shorter.translate_encoded([encoded], None)
    translation = [number for piece in best.pieces for number in piece.ids]
    model, device = translator.engine.model, translator.engine.device
    src = torch.tensor([[*source, EOS_ID]], device=device)
    tgt_in = torch.tensor([[BOS_ID, *translation]], device=device)
    with autocast(device, translator.engine.precision), record_attention(model) as recorded:
        model.hidden_states(src, tgt_in)

    def stack_layers(stack: str, kind: str, layers: int) -> Tensor:
        weights = [recorded[f"{stack}.{layer}.{kind}"][0][0] for layer in range(layers)]
        return torch.stack(weights).float().cpu()

    shown = []
    for tokenizer, ids in ((tokenizers.src, source), (tokenizers.tgt, translation)):
        numbers = [*ids, EOS_ID]
        tokens = tokenizer.filled_tokens(numbers, encoded.source.values)
        shown.append(
            [token or tokenizer.token(n) for token, n in zip(tokens, numbers, strict=True)]
        )
    return AttentionMaps(
        *(shown[0], shown[1]),
        stack_layers("encoder", "self_attention", len(model.encoder)),
        stack_layers("decoder", "self_attention", len(model.decoder)),
        stack_layers("decoder", "cross_attention", len(model.decoder)),
    )
