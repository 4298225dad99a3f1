"""What ``vocab`` reports of each side: size, types, lengths and unknown tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

from transformer_cli.data.token_arrays import PERCENTILES, percentiles
from transformer_cli.text.vocabulary import UNK_ID
from transformer_cli.training.preparation import PreparedData


@dataclass(frozen=True)
class SideSummary:
    """Statistics of one side's vocabulary and tokens."""

    lines: int
    tokens: int
    types: int | None
    """Distinct words of the training text; None for subwords."""
    size: int
    """Entries of the vocabulary, the four specials included."""
    unknown_in_val: float
    """Share of UNK among the tokens of the validation side."""
    lengths: Sequence[int]
    """Percentiles of tokens per training line, at ``PERCENTILES``."""


def summarize_sides(prepared: PreparedData) -> tuple[SideSummary, SideSummary]:
    """Return the summaries of source and target."""
    types = prepared.tokenizers.types or (None, None)
    sizes = (prepared.tokenizers.src.size, prepared.tokenizers.tgt.size)
    train, val = prepared.train, prepared.val
    counts = train.count_lengths()
    src, tgt = (
        SideSummary(
            lines=len(train),
            tokens=tokens,
            types=types[side],
            size=sizes[side],
            unknown_in_val=float((ids == UNK_ID).mean()) if len(ids) else 0.0,
            lengths=percentiles(counts[side], PERCENTILES),
        )
        for side, tokens, ids in (
            (0, train.record.src_tokens, val.src.ids),
            (1, train.record.tgt_tokens, val.tgt.ids),
        )
    )
    return src, tgt
