"""A translator that aligns translated words with source words, using the model's attention."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, islice
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from transformer_cli.extensions.alignments.word_links import align_words
from transformer_cli.inference.search import (
    TorchEngine,
    cut_longest_first,
    pad,
    split_when_out_of_memory,
)
from transformer_cli.inference.translation import EncodedLine, Pieces, Translation
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.model.linear import autocast, pack_weights
from transformer_cli.model.transformer import Transformer, record_attention
from transformer_cli.text.protocol import BOS_ID, PAD_ID

Translator = TypeVar("Translator", bound=TextTranslator[Any])
Found = tuple[EncodedLine, Pieces]
"""A source line and one of its translations, both as token ids."""


class AligningTranslator(TextTranslator[TorchEngine]):
    """A translator that aligns the words of every translation with the words of its source line."""

    def write(self, found: Sequence[Found]) -> list[Translation]:
        """Return the translations as text, each with its word alignment."""
        aligned = align_pieces(self, found)
        return [
            write_aligned(self, *one, places) for one, places in zip(found, aligned, strict=True)
        ]


def with_alignments(translator: Translator) -> Translator:
    """Return a copy of a translator; the copy also aligns translated words with source words."""
    return translator.extended_by(AligningTranslator)


def write_aligned(
    translator: TextTranslator[Any],
    line: EncodedLine,
    pieces: Pieces,
    places: Sequence[int],
    tokens: Sequence[str] | None = None,
) -> Translation:
    """Return one translation as text, with its word alignment.

    Args:
        translator: the translator that produced the translation.
        line: the source line.
        pieces: the translation of each piece of the line; a long line has several pieces.
        places: for each target token, the index of the source token that ``align_pieces`` found.
        tokens: the translation's tokens; if None, ``Tokenizer.filled_tokens`` returns them.
    """
    if line.is_copied:
        copied = translator.write_line(line, pieces)
        return replace(copied, alignment=tuple((n, n) for n in range(len(copied.text.split()))))
    if tokens is None:
        ids = [number for piece in pieces for number in piece.ids]
        tokens = translator.tokenizers.tgt.filled_tokens(ids, line.source.values)
    written = translator.write_line(line, pieces, tokens)
    src_tokens = translator.tokenizers.source_tokens(line.source, ids_of(line))
    links = align_words(line.text, src_tokens, written.text, tokens, places)
    return replace(written, alignment=links)


def ids_of(line: EncodedLine) -> list[int]:
    """Return the source token ids of all pieces of a line, without the EOS of each piece."""
    return [number for piece in line.pieces for number in piece[:-1]]


def align_pieces(translator: TextTranslator[Any], found: Sequence[Found]) -> list[list[int]]:
    """Return, for each token of each translation, the index of the aligned source token.

    If a long line was cut into pieces, indices count through the source tokens of all pieces.
    """
    sources = [ids for line, pieces in found for ids, _ in zip(line.pieces, pieces, strict=False)]
    targets = [piece.ids for _, pieces in found for piece in pieces]
    batch_tokens = translator.decoding.batch_tokens
    of_pieces = iter(align_tokens(translator.engine, sources, targets, batch_tokens))
    aligned = []
    for line, pieces in found:
        starts = accumulate((len(piece) - 1 for piece in line.pieces), initial=0)
        of_line = zip(starts, islice(of_pieces, len(pieces)), strict=False)
        aligned.append([start + place for start, places in of_line for place in places])
    return aligned


@torch.inference_mode()
def align_tokens(
    engine: TorchEngine,
    sources: Sequence[list[int]],
    targets: Sequence[list[int]],
    batch_tokens: int,
) -> list[list[int]]:
    """Return, for each target token, the index of the source token that it attends to most.

    Attention weights are averaged over all heads and layers.

    Args:
        engine: the engine with the model.
        sources: token ids, each with EOS; nothing is aligned to EOS.
        targets: the token ids of the translations of ``sources``, without EOS.
        batch_tokens: the maximum number of source tokens, and of target tokens, in a padded batch.
    """
    aligned: list[list[int]] = [[] for _ in targets]
    lengths = np.array([max(map(len, pair)) for pair in zip(sources, targets, strict=True)])
    order = np.argsort(-lengths, kind="stable")

    def align_rows(batch: np.ndarray) -> None:
        src = pad([sources[index] for index in batch], PAD_ID).to(engine.device)
        tgt_in = pad([[BOS_ID, *targets[index][:-1]] for index in batch], PAD_ID)
        most_attended = find_most_attended(engine.model, src, tgt_in.to(engine.device))
        for index, places in zip(batch, most_attended.tolist(), strict=True):
            aligned[index] = places[: len(targets[index])]

    with autocast(engine.device, engine.precision), pack_weights(engine.model):
        for batch in cut_longest_first(order, lengths, batch_tokens):
            split_when_out_of_memory(align_rows, batch)
    return aligned


def find_most_attended(
    model: Transformer, src: Int[Tensor, "batch src"], tgt_in: Int[Tensor, "batch tgt"]
) -> Int[Tensor, "batch tgt"]:
    """Return the index of the source token, not EOS, that each target position attends to most."""
    attentions = nn.ModuleList(layer.cross_attention for layer in model.decoder_layers())
    with record_attention(attentions) as recorded:
        model.hidden_states(src, tgt_in)
    # (batch, heads, tgt, src) of each layer -> (batch, tgt, src)
    weights = torch.stack([calls[0].float().mean(dim=1) for calls in recorded.values()])
    ends = (src != model.pad_id).sum(dim=1) - 1
    is_word = torch.arange(src.size(1), device=src.device) < ends[:, None]
    return weights.mean(dim=0).masked_fill(~is_word[:, None], -1.0).argmax(dim=2)
