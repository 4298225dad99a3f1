"""The option ``--comet`` of ``evaluate``, which adds the score COMET."""

from dataclasses import dataclass
from typing import Annotated

from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import flag
from transformer_cli.cli.evaluate import EvaluateExtra, EvaluateOptions, ScoredText

with lazy_imports():
    from transformer_cli.extensions.comet import scoring_model
    from transformer_cli.inference import translation


@dataclass(frozen=True)
class CometOptions(EvaluateExtra):
    """The option ``--comet``, which scores translations with COMET in addition to other scores."""

    heading = "Search and scores"
    comet: Annotated[
        bool, flag("Also score with COMET, if its package is installed.", "--comet")
    ] = False

    def notes(self, given: EvaluateOptions, scored: ScoredText) -> "translation.Notes | None":
        """Return ``Notes`` that compute COMET's score, or None if it was not requested."""
        return scoring_model.load_comet(given.device, scored.pairs.tgt) if self.comet else None
