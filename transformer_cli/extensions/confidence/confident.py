"""A translator that estimates how likely its translations are good, and leaves out risky ones."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from transformer_cli.base.artifact import sum_json
from transformer_cli.extensions.confidence.calibration import Calibration
from transformer_cli.inference.translation import EncodedLine, Translation
from transformer_cli.inference.translator import NOBODY, TextTranslator, Watcher

LEFT = "left to a person"
"""The remark on a translation that was left out because it is too risky."""


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
