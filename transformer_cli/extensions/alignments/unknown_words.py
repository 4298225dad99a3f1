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
from transformer_cli.inference.translation import EncodedLine, Reviser, Translation
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
            for place, (line, ranked) in enumerate(zip(lines, found, strict=True))
            for rank, one in enumerate(ranked)
            if UNK_ID in _ids(one)
        ]
        if not unknown:
            return found
        aligned = align_pieces(
            translator, [(lines[place], found[place][rank].pieces) for place, rank in unknown]
        )
        found = [list(ranked) for ranked in found]
        for (place, rank), places in zip(unknown, aligned, strict=True):
            line, one = lines[place], found[place][rank]
            tokens = _replace_unknown(translator, line, one, places)
            found[place][rank] = (
                write_aligned(translator, line, one.pieces, places, tokens)
                if isinstance(translator, AligningTranslator)
                else translator.write_line(line, one.pieces, tokens)
            )
        return found


def _replace_unknown(
    translator: TextTranslator[Any], line: EncodedLine, one: Translation, places: Sequence[int]
) -> list[str]:
    """Return a translation's tokens, with each UNK replaced by the source token aligned to it."""
    src_tokens = translator.tokenizers.source_tokens(line.source, ids_of(line))
    tokens = translator.tokenizers.tgt.filled_tokens(_ids(one), line.source.values)
    for number, token_id in enumerate(_ids(one)):
        if token_id == UNK_ID:
            # Keep tokens that are aligned to a source token without text.
            tokens[number] = src_tokens[places[number]] or tokens[number]
    return tokens


def _ids(translation: Translation) -> list[int]:
    return [number for piece in translation.pieces for number in piece.ids]
