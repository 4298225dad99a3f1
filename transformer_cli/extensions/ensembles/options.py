"""The option of ``translate`` and ``evaluate`` that adds models to the one that is named."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from transformer_cli.base.errors import UsageError
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import AnyTranslator, ExtraOptions, option

with lazy_imports():
    from transformer_cli.extensions.ensembles import report_entry

_NAME = "--ensemble"


@dataclass(frozen=True)
class EnsembleOptions(ExtraOptions):
    """Models that are decoded together with the run's."""

    heading = "Search"
    ensemble: Annotated[
        list[Path] | None,
        option("RUN", "Decode with this run too; repeatable.", _NAME, use="run", needs_torch=True),
    ] = None

    def check(self, given: Any) -> None:
        """Raise a UsageError if the checkpoint is a path, which can only be one run's."""
        if self.ensemble and given.checkpoint not in ("best", "last", "average"):
            raise UsageError(
                f"--checkpoint {given.checkpoint}: is of one run; with {_NAME}, name best, last "
                "or average"
            )

    def prepare(self, translator: AnyTranslator, given: Any) -> AnyTranslator:
        """Return a translator that searches with all the models."""
        if not self.ensemble:
            return translator
        from transformer_cli.extensions.ensembles.ensemble import add_models

        return add_models(translator, given.run, self.ensemble, given.checkpoint)


@dataclass(frozen=True)
class EvaluateEnsembleOptions(EnsembleOptions):
    """The same for ``evaluate``."""

    heading = "Search and scores"

    def open_notes(self, given: Any, scored: Any = None) -> "AbstractContextManager[Any]":
        """Open what notes the models, if several are decoded."""
        paths = [run.as_posix() for run in self.ensemble or ()]
        return nullcontext(report_entry.EnsembleNotes(paths) if paths else None)
