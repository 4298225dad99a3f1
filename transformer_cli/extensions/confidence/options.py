"""The options ``evaluate --calibrate`` and ``translate --max-risk``."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from transformer_cli.base.errors import UsageError
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import OTHERS, AnyTranslator, ExtraOptions, flag, option
from transformer_cli.cli.evaluate import EvaluateExtra, ScoredText

with lazy_imports():
    from transformer_cli.extensions.confidence import calibrating, calibration
    from transformer_cli.inference import translation


@dataclass(frozen=True)
class CalibrateOptions(EvaluateExtra):
    """The option ``--calibrate``, which learns how likely translations are good."""

    heading = OTHERS
    calibrate: Annotated[
        bool,
        flag(
            "Learn from the validation text how likely translations are good, for translate "
            "--scores, --report and --max-risk.",
            "--calibrate",
        ),
    ] = False

    def check(self, given: Any) -> None:
        """Raise UsageError for options with which the run translates in another way."""
        others = [name for mark in ("run", "reads") for name, _ in given.marked(mark)]
        if self.calibrate and others:
            raise UsageError(
                f"evaluate: --calibrate: is for the run as it is; leave out {others[0]}"
            )

    def notes(self, given: Any, scored: ScoredText) -> "translation.Notes | None":
        """Calibrate the run if that was requested; return ``Notes`` with the estimates' errors."""
        return calibrating.calibrate(scored) if self.calibrate else None


@dataclass(frozen=True)
class RiskOptions(ExtraOptions):
    """The option ``--max-risk``, which leaves risky translations to a person."""

    heading = "Search"
    max_risk: Annotated[
        str | None,
        option(
            "PERCENT",
            "Leave a line empty if its translation is more likely than this not good, e.g. 5%.",
        ),
    ] = None

    def check(self, given: Any) -> None:
        """Raise UsageError if the value is no percentage, or several translations are wanted."""
        if self.max_risk is None:
            return
        if not re.fullmatch(r"[0-9]{1,2}(\.[0-9]+)?%", self.max_risk):
            problem = f"expected a percentage such as 5%, found {self.max_risk!r}"
            raise UsageError(f"translate: --max-risk: {problem}")
        if dict(given.marked("lines")).get("--n-best", 1) > 1:
            raise UsageError("translate: --max-risk: judges one translation; leave out --n-best")

    def prepare(self, translator: AnyTranslator, given: Any) -> AnyTranslator:
        """Return a translator that estimates how likely its translations are good."""
        learned = calibration.read_calibration(given.run / calibration.FILE)
        is_same = learned and learned.checkpoint == translator.checkpoint
        if learned and is_same and not given.marked("run"):
            risk = None if self.max_risk is None else float(self.max_risk[:-1]) / 100
            return translator.extended_by(calibration.Confident, calibration=learned, max_risk=risk)
        if self.max_risk is not None:
            of_other = " for this checkpoint or ensemble" if learned else ""
            raise UsageError(
                f"--max-risk: {given.run} has no calibration{of_other}; first run: "
                f"transformer-cli evaluate {given.run} --calibrate"
            )
        return translator
