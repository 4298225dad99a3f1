"""Scores of a whole split, as rows of a table."""

from collections.abc import Sequence
from typing import NamedTuple

from transformer_cli.evaluation.metrics import USUAL, Metrics
from transformer_cli.evaluation.scoring import score


class ScoreRow(NamedTuple):
    """One metric's row."""

    name: str
    value: float | None
    half_width: float | None
    """Half of the 95 % interval by bootstrap resampling; None: it was not resampled."""
    signature: str | None
    lower_is_better: bool = False


def make_score_rows(
    hypotheses: Sequence[str], references: Sequence[str], metrics: Metrics = USUAL
) -> list[ScoreRow]:
    """Return rows of BLEU, lowercased BLEU where there is case, chrF and TER.

    Args:
        hypotheses: one translation a sentence.
        references: as many raw reference lines.
        metrics: those of the target language.
    """
    found = score(hypotheses, references, True, metrics)
    rows = [
        ScoreRow("BLEU", found.bleu, found.bleu_ci, found.signature),
        ScoreRow("BLEU lowercased", found.bleu_lc, found.bleu_lc_ci, found.signature_lc),
        ScoreRow("chrF", found.chrf, found.chrf_ci, found.signature_chrf),
        ScoreRow("TER", found.ter, found.ter_ci, found.signature_ter, lower_is_better=True),
    ]
    return [row for row in rows if row.value is not None]
