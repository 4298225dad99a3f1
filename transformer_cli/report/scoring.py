"""Scores of a whole split with how sure they are."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from transformer_cli.inference.significance import SAMPLES


class Score(NamedTuple):
    """One metric's verdict."""

    name: str
    value: float
    half_width: float | None
    """Half of the 95 % interval by bootstrap resampling; None: there is nothing to resample."""
    signature: str
    better: str
    """'higher' or 'lower'."""


def all_scores(hypotheses: Sequence[str], references: Sequence[str]) -> list[Score]:
    """BLEU, BLEU of lowercased text, chrF and TER.

    Args:
        hypotheses: one translation a sentence.
        references: as many raw reference lines.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    metrics = {
        "BLEU": BLEU(),
        "BLEU lowercased": BLEU(lowercase=True),
        "chrF": CHRF(),
        "TER": TER(),
    }
    found = []
    for name, metric in metrics.items():
        score = metric.corpus_score(hypotheses, [list(references)], n_bootstrap=SAMPLES)
        told = json.loads(
            score.format(width=4, is_json=True, signature=str(metric.get_signature()))
        )
        found.append(
            Score(
                name,
                score.score,
                told.get("confidence_var"),
                str(metric.get_signature()),
                "lower" if name == "TER" else "higher",
            )
        )
    return found
