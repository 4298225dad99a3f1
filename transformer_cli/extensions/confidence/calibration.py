"""Estimate how likely a translation is good, from the probability that the model gives it.

A translation is good if its chrF against a reference is at least ``GOOD``. Platt (1999): the
probability of that is a logistic function of the mean log-probability of the tokens, fitted on the
validation text.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from inspect import get_annotations
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from transformer_cli.base.artifact import sum_json
from transformer_cli.base.errors import RunError, UsageError
from transformer_cli.base.files import read_json
from transformer_cli.inference.translation import EncodedLine, Translation
from transformer_cli.inference.translator import NOBODY, TextTranslator, Watcher

FILE = "calibration.json"
LEFT = "left to a person"
"""The remark on a translation that was left out because it is too risky."""
GOOD = 50.0
"""The chrF from which a translation is good: most of its words are right."""
BINS = 10
_FEWEST = 100  # translations to fit
_FEWEST_OF_EACH = 5  # good translations, and others
_STEPS = 30  # of Newton's method, which needs about ten
_PULL = 1e-3  # towards 0; keeps the slope finite if one probability separates all translations
_LEAST_LOGIT = 500.0  # math.exp overflows above 709
_WIDEST = 8.0  # a mean log-probability below -8 counts as -8


@dataclass(frozen=True)
class Calibration:
    """The probability that a translation is good, for one model.

    Attributes:
        intercept: the logit of the probability for translations that the model is certain of.
        slope: its increase per unit of mean log-probability.
        good: the chrF from which a translation counts as good.
        pairs: number of pairs that it was fitted on.
        checkpoint: SHA-256 of the manifest of the model's checkpoint.
    """

    intercept: float
    slope: float
    good: float
    pairs: int
    checkpoint: str

    def estimate(self, mean_log_probability: float) -> float:
        """Return the probability that a translation is good."""
        logit = self.intercept + self.slope * max(mean_log_probability, -_WIDEST)
        return 1.0 / (1.0 + math.exp(-max(logit, -_LEAST_LOGIT)))


def read_calibration(path: Path) -> Calibration | None:
    """Return the calibration in a file, or None if there is no file; raise RunError if damaged."""
    if not path.is_file():
        return None
    values = read_json(path)
    given = values.items() if isinstance(values, dict) else ()
    if {key: type(each) for key, each in given} != get_annotations(Calibration):
        raise RunError(f"{path}: is damaged; write it again with evaluate --calibrate")
    return Calibration(**values)


def fit(
    mean_log_probabilities: Sequence[float], is_good: Sequence[bool], checkpoint: str
) -> Calibration:
    """Fit a calibration to translations, by maximum likelihood.

    Raises:
        UsageError: there are too few translations, or too few good or too few other ones.
    """
    x = np.maximum(np.array(mean_log_probabilities, dtype=float), -_WIDEST)
    y = np.array(is_good, dtype=float)
    if len(y) < _FEWEST or min(y.sum(), len(y) - y.sum()) < _FEWEST_OF_EACH:
        raise UsageError(
            f"--calibrate: of {len(y):,} translations of the validation text, {int(y.sum()):,} are "
            f"good (chrF of {GOOD:g} or more); it takes at least {_FEWEST} translations, with "
            f"{_FEWEST_OF_EACH} good ones and {_FEWEST_OF_EACH} others"
        )
    inputs = np.stack([np.ones_like(x), x], axis=1)
    weights = np.zeros(2)
    for _ in range(_STEPS):
        logits = np.clip(inputs @ weights, -_LEAST_LOGIT, _LEAST_LOGIT)
        probabilities = 1.0 / (1.0 + np.exp(-logits))
        slope = inputs.T @ (probabilities - y) + _PULL * weights
        curvature = (inputs.T * (probabilities * (1.0 - probabilities))) @ inputs
        weights -= np.linalg.solve(curvature + _PULL * np.eye(2), slope)
    if weights[1] <= 0:
        raise UsageError("--calibrate: likelier translations of the validation text are not better")
    return Calibration(float(weights[0]), float(weights[1]), GOOD, len(y), checkpoint)


class Bin(NamedTuple):
    """Translations with similar estimates."""

    estimate: float  # the mean of their estimated probabilities
    good: float  # the share that is good
    size: int


def find_bins(estimates: np.ndarray, is_good: np.ndarray) -> list[Bin]:
    """Divide translations into ``BINS`` of equal size by their estimates."""
    parts = np.array_split(np.argsort(estimates, kind="stable"), BINS)
    return [
        Bin(float(estimates[part].mean()), float(is_good[part].mean()), len(part))
        for part in parts
        if len(part)
    ]


def calibration_error(bins: Sequence[Bin]) -> float:
    """Return the expected calibration error (Naeini et al. 2015): the mean difference of bins."""
    total = max(1, sum(each.size for each in bins))
    return sum(each.size * abs(each.estimate - each.good) for each in bins) / total


class Confident(TextTranslator[Any]):
    """A translator whose model has a calibration."""

    calibration: ClassVar[Calibration]
    max_risk: ClassVar[float | None]
    """The highest probability that a translation is not good; a riskier one becomes empty."""

    @property
    def settings_fingerprint(self) -> dict[str, str]:
        return super().settings_fingerprint | {"calibration": sum_json(vars(self.calibration))}

    def estimate(self, mean_log_probability: float) -> float:
        """Return the probability that a translation with this mean of its tokens' is good."""
        return self.calibration.estimate(mean_log_probability)

    def translate_encoded(
        self, encoded: Sequence[EncodedLine], n_best: int | None = 1, watcher: Watcher = NOBODY
    ) -> list[list[Translation]]:
        """Return the translations of lines; see ``max_risk``."""
        # Several are only wanted by a second search, which chooses one of them.
        if self.max_risk is None or (n_best or 1) > 1:
            return super().translate_encoded(encoded, n_best, watcher)
        found = super().translate_encoded(encoded, 1, watcher)
        return [
            [replace(best, text="", alignment=(), remark=LEFT)]
            # A doubtful translation may have been replaced by the source.
            if self._is_risky(best) and not (best.remark and best.text == line.text)
            else [best]
            for line, (best, *_) in zip(encoded, found, strict=True)
        ]

    def _is_risky(self, one: Translation) -> bool:
        if not one.tokens:  # a copied line or a correction
            return False
        assert self.max_risk is not None
        return 1.0 - self.estimate(one.log_probability / one.tokens) > self.max_risk
