"""Learn how likely a run's translations are good, and show how far the estimates are off."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from transformer_cli.base.messages import bar
from transformer_cli.base.text_files import write_text
from transformer_cli.cli.display import align_columns
from transformer_cli.cli.evaluate import ScoredText
from transformer_cli.data.corpus import ParallelText
from transformer_cli.evaluation.scoring import load_split
from transformer_cli.extensions.confidence.calibration import (
    FILE,
    GOOD,
    Bin,
    Calibration,
    calibration_error,
    find_bins,
    fit,
)
from transformer_cli.inference.translation import Notes
from transformer_cli.inference.translator import Watcher


@dataclass(frozen=True)
class CalibrationNotes(Notes):
    """Notes that compare the estimates with how many translations of a text are good."""

    learned: Calibration
    bins: list[Bin]

    @property
    def facts(self) -> dict[str, Any]:
        """The calibration, and the estimates for the text, for the JSON report."""
        bins = [one._asdict() for one in self.bins]
        found = {"error": calibration_error(self.bins), "bins": bins}
        return {"calibration": asdict(self.learned) | found}

    def rows(self) -> Iterator[tuple[str, str, str]]:
        what = f"mean error of the estimates; {FILE} has them"
        yield "calibration", f"{100 * calibration_error(self.bins):6.2f}", what

    def remarks(self) -> Iterator[str]:
        """Yield a table of estimates."""
        head = (f"estimated to be good (chrF of {GOOD:g} or more)", "are good", "of")
        rows = [(f"{one.estimate:.0%}", f"{one.good:.0%}", f"{one.size:,}") for one in self.bins]
        yield from align_columns([head, *rows])


def calibrate(scored: ScoredText) -> CalibrationNotes:
    """Fit a calibration on the validation text, write it into the run, and try it on ``scored``."""
    run = scored.runs[0]
    _, val = load_split(run, "val", "only a run with its text can be calibrated")
    checkpoint = scored.translator.checkpoint
    learned = fit(*_judge(scored, val), checkpoint)
    probabilities, is_good = _judge(scored, scored.pairs)
    estimates = np.array([learned.estimate(each) for each in probabilities])
    bins = find_bins(estimates, np.array(is_good))
    write_text(run.path / FILE, json.dumps(asdict(learned), indent=1) + "\n")
    return CalibrationNotes(learned, bins)


def _judge(scored: ScoredText, text: ParallelText) -> tuple[list[float], list[bool]]:
    """Return the mean log-probability of each translation's tokens, and whether it is good."""
    metric = scored.metrics.by_name()["chrf"]
    with bar(len(text), "calibrating", " sentences") as shown:
        found = scored.translator.translate_lines(text.src, 1, Watcher(shown.update))
    judged = [
        (best.log_probability / best.tokens, metric.sentence_score(best.text, [reference]).score)
        for (best, *_), reference in zip(found, text.tgt, strict=True)
        if best.tokens
    ]
    return [each for each, _ in judged], [chrf >= GOOD for _, chrf in judged]
