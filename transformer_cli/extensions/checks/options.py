"""The option of ``evaluate`` about text that is near the training text."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any

from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import ExtraOptions, flag

with lazy_imports():
    from transformer_cli.extensions.checks import evaluation_note


@dataclass(frozen=True)
class NearOptions(ExtraOptions):
    """Whether to compare what is scored with the training text."""

    heading = "Search and scores"
    near: Annotated[
        bool, flag("Scores by nearness to the training text, which is read.", "--near")
    ] = False

    def open_notes(self, given: Any, scored: Any = None) -> "AbstractContextManager[Any]":
        """Open what is noted of pairs that were seen in training, whether asked or not."""
        return nullcontext(evaluation_note.SeenNotes(scored, self.near))
