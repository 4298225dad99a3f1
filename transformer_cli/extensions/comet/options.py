"""The option of ``evaluate`` that asks for COMET."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any

from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import ExtraOptions, flag

with lazy_imports():
    from transformer_cli.extensions.comet import scoring_model


@dataclass(frozen=True)
class CometOptions(ExtraOptions):
    """Whether COMET scores the translations too."""

    heading = "Search and scores"
    comet: Annotated[bool, flag("COMET too, if its package is installed.", "--comet")] = False

    def open_notes(self, given: Any, scored: Any = None) -> "AbstractContextManager[Any]":
        """Open COMET's score of a text, if it is asked for."""
        if not self.comet:
            return nullcontext()
        return nullcontext(scoring_model.load_comet(given.device, scored.pairs.tgt))
