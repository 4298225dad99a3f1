"""Replaces unknown words (UNK tokens) in translations with the aligned source words."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from transformer_cli.base.errors import UsageError
from transformer_cli.extensions.alignments.aligning import (
    AligningTranslator,
    Translator,
    align_pieces,
    ids_of,
    write_aligned,
)
from transformer_cli.inference.engine import SearchEngine
from transformer_cli.inference.translation import EncodedLine, Pieces, Reviser, Translation
from transformer_cli.inference.translator import TextTranslator, Watcher
from transformer_cli.text.protocol import UNK_ID


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
    src_tokens = translator.tokenizers.source_tokens(line.source, ids_of(line))
    ids = _tgt_ids(pieces)
    tokens = translator.tokenizers.tgt.filled_tokens(ids, line.source.values)
    for number, token_id in enumerate(ids):
        if token_id == UNK_ID:
            # Keep tokens that are aligned to a source token without text.
            tokens[number] = src_tokens[places[number]] or tokens[number]
    return tokens


def _tgt_ids(pieces: Pieces) -> list[int]:
    return [number for piece in pieces for number in piece.ids]
