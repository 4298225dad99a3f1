"""The option ``--ensemble`` of ``translate`` and ``evaluate``, which adds other runs' models."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from transformer_cli.base.errors import UsageError
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import AnyTranslator, ExtraOptions, option
from transformer_cli.cli.evaluate import EvaluateExtra, EvaluateOptions, ScoredText

with lazy_imports():
    from transformer_cli.extensions.ensembles import ensemble as ensembles

if TYPE_CHECKING:
    from transformer_cli.inference.translation import Notes

_NAME = "--ensemble"


@dataclass(frozen=True)
class EnsembleOptions(ExtraOptions):
    """The option ``--ensemble``: other runs, whose models decode together with the run's model."""

    heading = "Search"
    ensemble: Annotated[
        list[Path] | None,
        option(
            "RUN",
            "Average the probabilities with those of another run; repeatable.",
            _NAME,
            marks=("run", "torch"),
        ),
    ] = None

    def check(self, given: Any) -> None:
        """Raise a UsageError if ``--checkpoint`` is a path, which belongs to only one run."""
        if self.ensemble and given.checkpoint not in ("best", "last", "average"):
            raise UsageError(
                f"--checkpoint {given.checkpoint}: belongs to one run; with {_NAME}, use best, "
                "last or average"
            )

    def prepare(self, translator: AnyTranslator, given: Any) -> AnyTranslator:
        """Return a translator that searches with all the models."""
        if not self.ensemble:
            return translator
        return ensembles.add_models(translator, given.run, self.ensemble, given.checkpoint)


@dataclass(frozen=True)
class EvaluateEnsembleOptions(EnsembleOptions, EvaluateExtra):
    """The option ``--ensemble`` of ``evaluate``, which also names the other models in reports."""

    heading = "Search and scores"

    def notes(self, given: EvaluateOptions, scored: ScoredText) -> "Notes | None":
        """Return ``Notes`` that name the other models, or None if there are none."""
        paths = [run.as_posix() for run in self.ensemble or ()]
        return ensembles.EnsembleNotes(paths) if paths else None
