"""Word alignments by attention: which source words those of a translation go with."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from transformer_cli.data.batches import pad_rows
from transformer_cli.data.token_arrays import cut_by_tokens
from transformer_cli.model.attention import record_attention
from transformer_cli.model.device import autocast
from transformer_cli.model.ensemble import Ensemble
from transformer_cli.model.linear import pack_weights
from transformer_cli.model.out_of_memory import split_when_out_of_memory
from transformer_cli.model.transformer import Transformer
from transformer_cli.text.vocabulary import BOS_ID


@torch.inference_mode()
def align_tokens(
    model: Transformer | Ensemble,
    sources: Sequence[list[int]],
    targets: Sequence[list[int]],
    batch_tokens: int,
    precision: torch.dtype,
) -> list[list[int]]:
    """Align each target token to the source token that its step attends to most.

    Attention is the mean of all heads of all layers; see ``SearchEngine.align`` for the rest.
    """
    aligned: list[list[int]] = [[] for _ in targets]
    device = next(model.parameters()).device
    lengths = np.array([max(map(len, pair)) for pair in zip(sources, targets, strict=True)])
    order = np.argsort(-lengths, kind="stable")

    def align(batch: np.ndarray) -> None:
        found = _find_most_attended(
            model,
            pad_rows([sources[index] for index in batch]).to(device),
            pad_rows([[BOS_ID, *targets[index][:-1]] for index in batch]).to(device),
        )
        for index, places in zip(batch, found.tolist(), strict=True):
            aligned[index] = places[: len(targets[index])]

    with autocast(device, precision), pack_weights(model):
        for batch in cut_by_tokens(order, lengths, batch_tokens):
            split_when_out_of_memory(align, batch)
    return aligned


def _find_most_attended(
    model: Transformer | Ensemble, src: Int[Tensor, "batch src"], tgt_in: Int[Tensor, "batch tgt"]
) -> Int[Tensor, "batch tgt"]:
    attentions = nn.ModuleList(layer.cross_attention for layer in model.decoder_layers())
    with record_attention(attentions) as recorded:
        model.hidden_states(src, tgt_in)
    # (batch, heads, tgt, src) of each layer -> (batch, tgt, src)
    looks = torch.stack([calls[0].float().mean(dim=1) for calls in recorded.values()]).mean(dim=0)
    ends = (src != model.pad_id).sum(dim=1) - 1
    places = torch.arange(src.size(1), device=src.device)
    is_word = places < ends[:, None]
    return looks.masked_fill(~is_word[:, None], -1.0).argmax(dim=2)
