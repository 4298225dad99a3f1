"""Aligns translated words with source words, using the model's attention.

The alignments are written to a file, or show which source words replace unknown words.
"""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from transformer_cli.base.errors import UsageError
from transformer_cli.base.text_files import text_writer
from transformer_cli.base.writing import claim, whole_file
from transformer_cli.extensions.alignments.word_links import align_words
from transformer_cli.inference.engine import SearchEngine
from transformer_cli.inference.search import (
    TorchEngine,
    cut_longest_first,
    pad,
    split_when_out_of_memory,
)
from transformer_cli.inference.translation import EncodedLine, Notes, Pieces, Reviser, Translation
from transformer_cli.inference.translator import TextTranslator, Watcher
from transformer_cli.model.linear import autocast, pack_weights
from transformer_cli.model.transformer import Transformer, record_attention
from transformer_cli.text.protocol import BOS_ID, PAD_ID, UNK_ID

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
        tokens = translator.tokenizers.tgt.filled_tokens(_tgt_ids(pieces), line.source.values)
    written = translator.write_line(line, pieces, tokens)
    src_tokens = translator.tokenizers.source_tokens(line.source, _src_ids(line))
    links = align_words(line.text, src_tokens, written.text, tokens, places)
    return replace(written, alignment=links)


def _src_ids(line: EncodedLine) -> list[int]:
    """Return the source token ids of all pieces of a line, without the EOS of each piece."""
    return [number for piece in line.pieces for number in piece[:-1]]


def _tgt_ids(pieces: Pieces) -> list[int]:
    return [number for piece in pieces for number in piece.ids]


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


@dataclass(frozen=True)
class LinksWriter(Reviser):
    """A ``Reviser`` that changes no translations, but writes their word alignments to a file."""

    path: Path

    def notes(self) -> Notes:
        """Return the ``Notes`` object that writes the file."""
        return _Links(self.path)


class _Links(Notes):
    """``Notes`` that write the alignment of each line's best translation, in the Pharaoh format.

    The file appears only once all translations have been written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(claim(self._path))
            temporary = stack.enter_context(whole_file(self._path, is_named=True))
            self._file = stack.enter_context(text_writer(temporary, self._path))
            self._opened = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        """Put the file in place, or remove it after an error."""
        self._opened.__exit__(*error)  # type: ignore[arg-type]

    def look(self, number: int, src: str, found: Sequence[Translation]) -> Iterable[str]:
        """Write the alignment of one line."""
        links = " ".join(f"{src_word}-{tgt_word}" for src_word, tgt_word in found[0].alignment)
        self._file.write(f"{links}\n")
        return ()


def with_unk_replacement(translator: Translator) -> Translator:
    """Return a translator that replaces UNK tokens; raise UsageError if its model uses subwords."""
    if not translator.tokenizers.tgt.is_word_level:
        raise UsageError(
            "needs a word-level tokenizer; this model writes subwords, which can spell any word"
        )
    revisers = (*translator.revisers, UnknownWords())
    return replace(translator, writes_unknown=True, revisers=revisers)


class UnknownWords(Reviser):
    """A ``Reviser`` that replaces UNK tokens in translations with the aligned source words."""

    def revise(
        self,
        translator: TextTranslator[SearchEngine],
        lines: Sequence[EncodedLine],
        found: list[list[Translation]],
        n_best: int | None,
        watcher: Watcher,
    ) -> list[list[Translation]]:
        """Replace each UNK token with the source word that it is aligned to."""
        unknown = [
            (place, rank)
            for place, ranked in enumerate(found)
            for rank, one in enumerate(ranked)
            if UNK_ID in _tgt_ids(one.pieces)
        ]
        if not unknown:
            return found
        pairs = [(lines[place], found[place][rank].pieces) for place, rank in unknown]
        aligned = align_pieces(translator, pairs)
        found = [list(ranked) for ranked in found]
        for (place, rank), pair, places in zip(unknown, pairs, aligned, strict=True):
            tokens = _replace_unknown(translator, *pair, places)
            if isinstance(translator, AligningTranslator):
                found[place][rank] = write_aligned(translator, *pair, places, tokens)
            else:
                found[place][rank] = translator.write_line(*pair, tokens)
        return found


def _replace_unknown(
    translator: TextTranslator[Any], line: EncodedLine, pieces: Pieces, places: Sequence[int]
) -> list[str]:
    """Return a translation's tokens, with each UNK replaced by the source token aligned to it."""
    src_tokens = translator.tokenizers.source_tokens(line.source, _src_ids(line))
    ids = _tgt_ids(pieces)
    tokens = translator.tokenizers.tgt.filled_tokens(ids, line.source.values)
    for number, token_id in enumerate(ids):
        if token_id == UNK_ID:
            # Keep tokens that are aligned to a source token without text.
            tokens[number] = src_tokens[places[number]] or tokens[number]
    return tokens
