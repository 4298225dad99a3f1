"""Word alignments by attention: which source words those of a translation go with."""

import unicodedata
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from transformer_cli.data.batches import cut_by_tokens, pad_rows
from transformer_cli.model.attention import record_attention
from transformer_cli.model.device import autocast
from transformer_cli.model.ensemble import Ensemble
from transformer_cli.model.linear import pack_weights
from transformer_cli.model.out_of_memory import split_when_out_of_memory
from transformer_cli.model.transformer import Transformer
from transformer_cli.text.vocabulary import BOS_ID

# How many letters on a token is looked for: some are lost between tokens, and more where a token
# does not show its letters, as unknown ones and bytes do not.
_NEAR, _FAR = 16, 1024


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


def map_tokens_to_words(text: str, tokens: Sequence[str]) -> list[int]:
    """Return the number of the word of ``text`` that each of its tokens begins in.

    Words are what white space separates, counted from 0. Tokens are found by their letters, so that
    it does not matter what a tokenizer makes of spaces, of case and of how characters are coded.

    Args:
        text: one line.
        tokens: as shown to a person, in their order.

    Returns:
        A number a token; nothing if the text has no words.
    """
    letters, numbers = "", []
    for number, word in enumerate(text.split()):
        plain = _plain(word)
        letters += plain
        numbers += [number] * len(plain)
    if not numbers:
        return []
    found, place, reach = [], 0, _NEAR
    for token in tokens:
        plain = _plain(token)
        at = letters.find(plain, place, place + len(plain) + reach)
        found.append(numbers[min(max(at, place), len(numbers) - 1)])
        reach = _FAR if at < 0 else _NEAR
        if at >= 0:
            place = at + len(plain)
    return found


def _plain(text: str) -> str:
    """Return the letters of a text and its marks, without invisible characters."""
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    return "".join(
        letter
        for letter in decomposed
        if letter != "▁" and not letter.isspace() and unicodedata.category(letter)[0] != "C"
    )
