"""The option ``--perturb`` of ``evaluate``, ``report`` and ``compare``."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import OTHERS, flag
from transformer_cli.cli.evaluate import EvaluateExtra, ScoredText

with lazy_imports():
    from transformer_cli.config import data_schema
    from transformer_cli.data import corpus
    from transformer_cli.extensions.noise import perturbed
    from transformer_cli.inference import translation


@dataclass(frozen=True)
class PerturbOptions(EvaluateExtra):
    """The option ``--perturb``, which also scores the text with noise."""

    heading = OTHERS
    perturb: Annotated[
        bool,
        flag(
            "Also score the text with typos, in capitals, etc.; docs/extensions/noise.md lists "
            "the kinds of noise.",
            "--perturb",
        ),
    ] = False

    def notes(self, given: Any, scored: ScoredText) -> "translation.Notes | None":
        """Return ``Notes`` that score the text with noise, or None if that was not requested."""
        return perturbed.PerturbedScores(scored) if self.perturb else None

    def variations(
        self, text: "corpus.ParallelText", data: "data_schema.DataConfig"
    ) -> "Iterator[tuple[str, corpus.ParallelText]]":
        """Yield the name of each kind of noise and a text with it, if that was requested."""
        if self.perturb:
            yield from perturbed.variations(text, data)
